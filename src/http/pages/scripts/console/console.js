// The console: shows what the address says, one view at a time.

import { setText, withProgress } from '../messages.js'
import { openAccess } from './access.js'
import { openNavigation, readAddress } from './address.js'
import { keysView } from './apiKeys.js'
import { counterView } from './counter.js'
import { countersView } from './counters.js'
import { crumbs } from './crumbs.js'
import { button, element } from './elements.js'
import { namespacesView } from './namespaces.js'
import { sequenceView } from './sequence.js'
import { sequencesView } from './sequences.js'

const main = document.querySelector('main')
const [crumbsPlace, progress] = ['#crumbs', '#freshness .progress'].map((selector) =>
  document.querySelector(selector),
)

/** What was shown last; aborted when it is left. */
let shown = new AbortController()

/**
 * Shows the view of the address. A view is a function of the address and a signal that aborts when it is left; it returns
 * the title, the content, and what to do once that is in the page.
 */
async function show() {
  shown.abort()
  shown = new AbortController()
  const { signal } = shown
  const address = readAddress()
  const view = await withProgress(progress, 'Loading…', () => read(address, signal))
  if (signal.aborted) return
  const focused = document.activeElement?.id
  const isFirst = main.childElementCount === 0
  const heading = element('h2', { tabindex: -1 }, [view.title].flat())
  document.title = [...(view.names ?? []), 'Console · Nth'].join(' · ')
  crumbsPlace.replaceChildren(...crumbs(address))
  main.replaceChildren(heading, ...view.content.filter((part) => part != null))
  view.start?.()
  if (isFirst) return
  const again = focused && document.getElementById(focused)
  if (again) again.focus()
  else heading.focus()
}

async function read(address, signal) {
  try {
    return await viewOf(address)(address, signal)
  } catch (error) {
    const problem = element('p', { class: 'problem', role: 'alert' }, error.message)
    return { title: "This can't be shown", content: [problem, button('Try again', show)] }
  }
}

function viewOf({ view, namespace, list, counter, sequence }) {
  if (view === 'keys') return keysView
  if (namespace === undefined) return namespacesView
  if (counter !== undefined) return counterView
  if (sequence !== undefined) return sequenceView
  return list === 'sequences' ? sequencesView : countersView
}

setText(progress, '')
await openAccess(show)
openNavigation(show)
show()
