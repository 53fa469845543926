// The console: shows what the address says, one view at a time.

import { setText, withProgress } from '../messages.js'
import { openAccess } from './access/access.js'
import { keysView } from './access/apiKeys.js'
import { openNavigation, readAddress } from './address.js'
import { counterView } from './counters/counter.js'
import { countersView } from './counters/counters.js'
import { crumbs } from './crumbs.js'
import { button, element } from './elements.js'
import { namespacesView } from './namespaces.js'
import { isRefusal } from './request.js'
import { sequenceView } from './sequences/sequence.js'
import { sequencesView } from './sequences/sequences.js'

const main = document.querySelector('main')
const [crumbsPlace, summary, progress] = ['#crumbs', '#summary', '#freshness .progress'].map((selector) =>
  document.querySelector(selector),
)

/** How long to wait before what may work later is tried again, in milliseconds. */
const RETRY_MS = 2000

/** What was shown last; aborted when it is left. */
let shown = new AbortController()

/**
 * Shows the view of the address. A view is a function of the address and a signal that aborts when it is left; it returns
 * the title, the names for the window's title, a summary for screen readers, the content, and what to do once that is in
 * the page.
 */
async function show() {
  shown.abort()
  shown = new AbortController()
  const { signal } = shown
  const address = readAddress()
  // A question about what was shown.
  document.querySelector('dialog')?.close()
  const focused = document.activeElement
  let view = await withProgress(progress, 'Loading…', () => read(address, signal))
  if (signal.aborted) return
  place(view, address, focused)
  while (view.isRetryable) {
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
    if (signal.aborted) return
    view = await read(address, signal)
    if (!signal.aborted && !view.isRetryable) place(view, address, focused)
  }
}

/** Puts a view into the page, and the focus on it, unless the person has moved that since it was on `focused`. */
function place(view, address, focused) {
  const isFirst = main.childElementCount === 0
  const hasMoved = document.activeElement !== focused
  const heading = element('h2', { tabindex: -1 }, [view.title].flat())
  document.title = [...(view.names ?? []), 'Console · Nth'].join(' · ')
  crumbsPlace.replaceChildren(...crumbs(address))
  main.replaceChildren(heading, ...view.content.filter((part) => part != null))
  setText(summary, view.summary ?? '')
  view.start?.()
  if (isFirst || (hasMoved && document.activeElement !== document.body)) return
  // A field that is there again keeps the focus, such as that of a search.
  const again = document.getElementById(focused?.id)
  if (again) again.focus()
  else heading.focus()
}

async function read(address, signal) {
  try {
    return await viewOf(address)(address, signal)
  } catch (error) {
    // What is refused is said beside the field for a key.
    const role = isRefusal(error) ? undefined : 'alert'
    const problem = element('p', { class: 'problem', role }, error.message)
    const again = element('p', { class: 'buttons' }, button('Try again', show))
    return { title: "This can't be shown", content: [problem, again], isRetryable: error.retryable ?? false }
  }
}

function viewOf({ view, namespace, list, counter, sequence }) {
  if (view === 'keys') return keysView
  if (namespace === undefined) return namespacesView
  if (counter !== undefined) return counterView
  if (sequence !== undefined) return sequenceView
  return list === 'sequences' ? sequencesView : countersView
}

openAccess(show)
openNavigation(show)
show()
