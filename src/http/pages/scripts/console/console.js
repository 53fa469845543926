// The console: shows what the address says, one view at a time.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { client, fill, html, isRefused, KeyForm, refusalText, useAccess, useIsLong, useRead } from '/page.js'
import { countersView, counterView } from './counters.js'
import { documentsView } from './documents.js'
import { homeView, searchView } from './home.js'
import { keysView } from './keys.js'
import { addressOf, go, Name, quoted, readAddress, rightsText, Search, seen } from './parts.js'
import { sequencesView, sequenceView } from './sequences.js'

function viewOf({ view, namespace, list, counter, sequence, contains }) {
  if (view === 'keys') return keysView
  if (view === 'documents') return documentsView
  if (namespace === undefined) return contains === undefined ? homeView : searchView
  if (counter !== undefined) return counterView
  if (sequence !== undefined) return sequenceView
  return list === 'sequences' ? sequencesView : countersView
}

const card = html`<p class="card"></p>`
const skeleton = html`<div class="tiles skeleton" aria-hidden="true">${Array(8).fill(card)}</div>`

const newVisit = () => ({ address: readAddress(), focused: document.activeElement })

/** Shows the present address. What was shown before remains until that is read. */
function App() {
  const [visit, setVisit] = useState(newVisit)
  const shown = useRead((signal) => viewOf(visit.address).read(visit.address, signal), visit)
  const isLong = useIsLong(shown.subject !== visit)
  useEffect(() => addEventListener('popstate', () => setVisit(newVisit())), [])
  return html`
    <header class="line ends top">
      <h1>Console</h1>
      <${NameSearch} ...${visit.address} />
    </header>
    <${Access} />
    <p class="muted" role="status">${isLong && 'Loading…'}</p>
    ${shown.subject ? html`<${Shown} ...${shown} />` : skeleton}`
}

/** A view has `read`, `title`, the part of the address that is `named` in it, and `View`. */
function Shown({ subject: { address, focused }, data, error, readAgain }) {
  const view = error ? failedView : viewOf(address)
  const { namespace, counter, sequence } = address
  const heading = useRef()
  const isFirst = useRef(true)
  useLayoutEffect(() => {
    const now = document.activeElement
    const hasMoved = now !== focused && now !== document.body
    // Somebody who searches goes on typing, and somebody who chooses a period may choose another.
    const isChoosing = focused.isConnected && focused.closest('[role=search], .segments')
    if (!isFirst.current && !hasMoved && !isChoosing) heading.current.focus()
    isFirst.current = false
  }, [focused, address])
  const name = address[view.named]
  const names = new Set([name, namespace, 'Console · Nth'].filter((part) => part !== undefined))
  document.title = [...names].map(seen).join(' · ')
  const linkTo = (kind, list) => html`
    <a href=${addressOf({ namespace, list })} aria-current=${kind === view.title ? 'page' : undefined}>
      ${kind} <${Name} text=${namespace} />
    </a>`
  const links = html`
    <nav class="line links" aria-label="Namespace">
      <a href="/console">Home</a> ${linkTo('Counters of')} ${linkTo('Sequences of', 'sequences')}
    </nav>`
  return html`
    ${namespace !== undefined && links}
    <h2 tabindex="-1" ref=${heading}>${view.title} ${name !== undefined && html`<${Name} text=${name} />`}</h2>
    <p class="unseen" role="status" id="summary">${data?.connection && summaryOf(data.connection)}</p>
    <${view.View} key=${JSON.stringify([view.title, namespace, counter, sequence])} ...${{ address, data, error, readAgain }} />`
}

const failedView = {
  title: "This can't be shown",
  View({ error, readAgain }) {
    const again = html`<button type="button" class="quiet" onClick=${readAgain}>Retry now</button>`
    // What is refused is said beside the field for a key.
    if (isRefused(error)) return
    return html`
      <p class="problem" role="alert">${error.message}</p>
      <p class="line buttons">${again} ${error.retryable && html`<span class="hint">This page keeps trying.</span>`}</p>`
  },
}

/** What a screen reader says once a page of a list is shown. */
const summaryOf = ({ nodes, pageInfo }) =>
  `${nodes.length} shown${pageInfo.hasNextPage ? ', more on the next page' : ''}.`

/** Searches what is around: the counters or the sequences of a namespace, or all names. */
function NameSearch({ view, namespace, list, counter, sequence, contains }) {
  const isSequences = sequence !== undefined || list === 'sequences'
  const within = { namespace, list: namespace === undefined || !isSequences ? undefined : 'sequences' }
  const label = `Find or open a ${isSequences ? 'sequence' : 'counter'}`
  const isShown = counter === undefined && sequence === undefined && view === undefined
  return html`
    <${Search} label=${namespace === undefined ? 'Find any name' : label} text=${isShown ? contains : undefined}
      show=${(text, isInstead) => go({ ...within, contains: text }, isInstead)} />`
}

const KINDS = { ANONYMOUS: 'no API key', TOKEN: 'a token', ADMIN: "the administrator's key" }

const VIEWER =
  '{ viewer { kind key { label prefix } grants { scopes namespace names prefix maxDelta maxCount onceOnly } } }'

function Access() {
  const { key, refusal } = useAccess()
  // If it fails, the view says why.
  const { viewer } = useRead((signal) => client.query(VIEWER, {}, { signal })).data ?? {}
  const own = viewer?.key
  const credential = own ? `the API key ${quoted(own.label)} (${own.prefix}…)` : KINDS[viewer?.kind]
  const isAdmin = viewer?.grants.some(({ scopes }) => scopes.includes('ADMIN'))
  return html`
    <section id="access" class="line links muted" aria-label="Access">
      <p>${viewer && `You use ${credential}: you may ${rightsText(viewer.grants)}.`}</p>
      ${isAdmin && html`<a href="/console?view=keys">API keys</a> <a href="/console?view=documents">Documents</a>`}
      <details open=${refusal !== undefined}>
        <summary>${key ? 'Change the key' : 'Use an API key'}</summary>
        <${KeyForm} problem=${refusal && refusalText(key, refusal)} />
      </details>
    </section>`
}

/** Shows links of the console without loading the page again. */
document.addEventListener('click', (event) => {
  const link = event.target.closest('a')
  const isPlain = event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey)
  if (!isPlain || link?.origin !== location.origin || link.pathname !== '/console') return
  event.preventDefault()
  go(Object.fromEntries(new URLSearchParams(link.search)))
})

fill('main', html`<${App} />`)
