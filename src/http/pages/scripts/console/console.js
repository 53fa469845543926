// The console: shows what the address says, one view at a time.

import { render } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { client, html, isRefused, KeyForm, noteRefusal, useAccess, useIsLong } from '/page.js'
import { countersView, counterView } from './counters.js'
import { homeView, searchView } from './home.js'
import { keysView } from './keys.js'
import { addressOf, go, grantText, Name, quoted, readAddress, useTyped } from './parts.js'
import { sequencesView, sequenceView } from './sequences.js'

/** How long to wait before what failed is read again, and after a letter before names are searched, in milliseconds. */
const RETRY_MS = 2000
const SEARCH_AFTER_MS = 200

/** How many grants are written out, and names of each: a key may have a hundred. */
const SHOWN = 3

function viewOf({ view, namespace, list, counter, sequence, prefix }) {
  if (view === 'keys') return keysView
  if (namespace === undefined) return prefix === undefined ? homeView : searchView
  if (counter !== undefined) return counterView
  if (sequence !== undefined) return sequenceView
  return list === 'sequences' ? sequencesView : countersView
}

const newVisit = () => ({ address: readAddress(), focused: document.activeElement })

/** Shows the present address. What was shown before remains until that is read. */
function App() {
  const { key } = useAccess()
  const [visit, setVisit] = useState(newVisit)
  const [shown, setShown] = useState()
  const isLong = useIsLong(shown?.visit !== visit)
  useEffect(() => addEventListener('popstate', () => setVisit(newVisit())), [])
  useEffect(() => {
    const leaving = new AbortController()
    const { signal } = leaving
    const view = viewOf(visit.address)
    async function read() {
      try {
        const data = await view.read(visit.address, signal)
        if (!signal.aborted) setShown({ visit, view, data })
      } catch (error) {
        if (signal.aborted) return
        noteRefusal(error)
        setShown({ visit, view: failedView, data: error })
        if (error.retryable) setTimeout(() => signal.aborted || read(), RETRY_MS)
      }
    }
    read()
    return () => leaving.abort()
  }, [visit, key])
  return html`
    <header class="line ends top">
      <h1>Console</h1>
      <${Search} address=${visit.address} />
    </header>
    <${Access} />
    <p class="progress" role="status">${isLong && 'Loading…'}</p>
    ${shown && html`<${Shown} ...${shown} />`}`
}

/** A view has `read`, `title`, the part of the address that is `named` in it, `summaryOf` the data, and `View`. */
function Shown({ visit: { address, focused }, view, data }) {
  const { namespace, counter, sequence } = address
  const heading = useRef()
  const isFirst = useRef(true)
  useLayoutEffect(() => {
    const now = document.activeElement
    const hasMoved = now !== focused && now !== document.body
    // Somebody who searches goes on typing.
    const isSearching = focused.isConnected && focused.closest('[role=search]')
    if (!isFirst.current && !hasMoved && !isSearching) heading.current.focus()
    isFirst.current = false
  }, [focused, address])
  const name = address[view.named]
  const names = new Set([name, namespace, 'Console · Nth'].filter((part) => part !== undefined))
  document.title = [...names].join(' · ')
  const linkTo = (kind, list) => {
    const isCurrent = kind === view.title
    const href = addressOf({ namespace, list })
    return html`<a href=${href} aria-current=${isCurrent ? 'page' : undefined}>${kind} <${Name} text=${namespace} /></a>`
  }
  const links = html`
    <nav class="line links" aria-label="Namespace">
      <a href="/console">Home</a> ${linkTo('Counters of')} ${linkTo('Sequences of', 'sequences')}
    </nav>`
  return html`
    ${namespace !== undefined && links}
    <h2 tabindex="-1" ref=${heading}>${view.title} ${name !== undefined && html`<${Name} text=${name} />`}</h2>
    <p class="unseen" role="status" id="summary">${view.summaryOf?.(data)}</p>
    <${view.View} key=${JSON.stringify([view.title, namespace, counter, sequence])} address=${address} data=${data} />`
}

const failedView = {
  title: "This can't be shown",
  View({ data: error }) {
    const again = html`<button type="button" class="quiet" onClick=${() => go(readAddress(), true)}>Retry now</button>`
    // What is refused is said beside the field for a key.
    return html`
      <p class="problem" role=${isRefused(error) ? undefined : 'alert'}>${error.message}</p>
      <p class="line buttons">${again} ${error.retryable && html`<span class="hint">This page keeps trying.</span>`}</p>`
  },
}

function Search({ address: { namespace, view, prefix } }) {
  const timer = useRef()
  const shown = namespace === undefined && view === undefined ? prefix : undefined
  const field = useTyped(shown)
  function search(event) {
    event.preventDefault()
    clearTimeout(timer.current)
    const show = () => go({ prefix: field.current.value || undefined }, shown !== undefined)
    timer.current = setTimeout(show, event.type === 'submit' ? 0 : SEARCH_AFTER_MS)
  }
  return html`
    <form role="search" aria-label="All names" onSubmit=${search} onInput=${search}>
      <input type="search" ref=${field} aria-label="Search all names" placeholder="Search all names" maxlength="191" autocomplete="off"
        spellcheck=${false} />
    </form>`
}

const KINDS = {
  ANONYMOUS: () => 'You use no API key',
  KEY: ({ key }) => `You use the API key ${quoted(key.label)} (${key.prefix}…)`,
  TOKEN: () => 'You use a token',
  ADMIN: () => "You use the administrator's key",
}

const VIEWER =
  '{ viewer { kind key { label prefix } grants { scopes namespace names prefix maxDelta maxCount } } }'

function Access() {
  const { key, refusal } = useAccess()
  const [viewer, setViewer] = useState()
  const details = useRef()
  useEffect(() => {
    const leaving = new AbortController()
    const { signal } = leaving
    // If it fails, the view says why.
    client.query(VIEWER, {}, { signal }).then(
      ({ viewer }) => setViewer(viewer),
      () => signal.aborted || setViewer(),
    )
    return () => leaving.abort()
  }, [key])
  useLayoutEffect(() => {
    if (refusal) details.current.open = true
  }, [refusal])
  const mayManageKeys = viewer?.grants.some(({ scopes }) => scopes.includes('ADMIN'))
  return html`
    <section id="access" class="line links" aria-label="Access">
      <p>${viewer && `${KINDS[viewer.kind](viewer)}: you may ${rightsText(viewer.grants)}.`}</p>
      ${mayManageKeys && html`<a href="/console?view=keys">API keys</a>`}
      <details ref=${details}>
        <summary>${key ? 'Change the key' : 'Use an API key'}</summary>
        <${KeyForm} problem=${refusal && `${refusal.message} Enter ${key ? 'another' : 'an'} API key.`} />
      </details>
    </section>`
}

function rightsText(grants) {
  const texts = grants.slice(0, SHOWN).map((grant) => grantText(grant, SHOWN))
  if (grants.length > SHOWN) texts.push(`${grants.length - SHOWN} more`)
  return texts.join('; ') || 'do nothing here'
}

/** Shows links of the console without loading the page again. */
document.addEventListener('click', (event) => {
  const link = event.target.closest('a')
  const isPlain = event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey)
  if (!isPlain || link?.origin !== location.origin || link.pathname !== '/console') return
  event.preventDefault()
  go(Object.fromEntries(new URLSearchParams(link.search)))
})

render(html`<${App} />`, document.querySelector('main'))
