// What all pages share: the client with the key of this tab, actions, and how numbers are written.

import htm from 'htm'
import { createContext, h, render } from 'preact'
import { useContext, useEffect, useLayoutEffect, useReducer, useRef, useState } from 'preact/hooks'
import { createClient } from '/client.js'

export const html = htm.bind(h)

/** Shows a page, below the field for a key. */
export const show = (Page) => fill('#app', html`<${KeyField} /><${Page} />`)

/** Puts a page into the place of its skeleton. */
export function fill(selector, content) {
  const place = document.querySelector(selector)
  place.replaceChildren()
  render(html`<${Root}>${content}<//>`, place)
}

/** Where the key of this tab is kept, by GraphiQL too. */
const KEY = 'nth-key'

/** How long an answer may take before the page shows progress, in milliseconds. */
const PROGRESS_AFTER_MS = 300

/** How long to wait before what failed is read again, in milliseconds. */
const READ_AGAIN_MS = 2000

const readKey = () => sessionStorage.getItem(KEY) ?? undefined

export const client = createClient({ key: readKey })

/** Which key the tab uses, and the error by which the server required another one. */
const Access = createContext()
export const useAccess = () => useContext(Access)
let setAccess

/** What all components of a page stand in. */
function Root({ children }) {
  const [access, set] = useState({ key: readKey() })
  setAccess = set
  return html`<${Access.Provider} value=${access}>${children}<//>`
}

/** Uses a key from now on; undefined: none. */
export function setKey(key) {
  if (key) sessionStorage.setItem(KEY, key)
  else sessionStorage.removeItem(KEY)
  setAccess({ key })
}

/** Whether another key could help. Then `KeyField` asks for it. */
export const isRefused = ({ code }) => code === 'UNAUTHENTICATED' || code === 'FORBIDDEN'

/** Why a key is asked for, as a person would say it. */
export function refusalText(key, { code, message }) {
  if (code !== 'FORBIDDEN' && !key) return 'This server asks for an API key.'
  const reason =
    code === 'FORBIDDEN' ? message : 'This key is not valid: it may have expired, or been revoked.'
  return `${reason} Enter ${key ? 'another' : 'an'} API key.`
}

export function noteRefusal(error) {
  if (isRefused(error)) setAccess((access) => ({ ...access, refusal: error }))
}

/**
 * Calls `read` at first, with another key or another `subject`, by `readAgain`, and until it succeeds. What was read
 * before remains until then, with its subject, unless the key is refused.
 */
export function useRead(read, subject) {
  const { key } = useAccess()
  const [result, setResult] = useState({})
  const [attempt, readAgain] = useReducer((count) => count + 1, 0)
  useEffect(() => {
    let timer
    const leaving = new AbortController()
    const { signal } = leaving
    function fail(error) {
      if (signal.aborted) return
      noteRefusal(error)
      const isStillShown = (shown) => shown.data && shown.subject === subject && !isRefused(error)
      setResult((shown) => (isStillShown(shown) ? shown : { error, subject }))
      if (error.retryable) timer = setTimeout(readAgain, READ_AGAIN_MS)
    }
    read(signal).then((data) => signal.aborted || setResult({ data, subject }), fail)
    return () => {
      leaving.abort()
      clearTimeout(timer)
    }
  }, [key, subject, attempt])
  return { ...result, readAgain }
}

/** A form that takes a key for this tab, or forgets it. */
export function KeyForm({ problem }) {
  const { key } = useAccess()
  function use(event) {
    event.preventDefault()
    setKey(event.target.elements.key.value.trim())
  }
  function forget({ target }) {
    target.form.elements.key.value = ''
    setKey()
  }
  return html`
    <form onSubmit=${use}>
      <p class="problem" role="alert" id="refusal">${problem}</p>
      <label for="key">API key, kept for this tab only</label>
      <div class="line">
        <input type="password" id="key" defaultValue=${key ?? ''} autocomplete="off" spellcheck=${false} aria-describedby="refusal"
          pattern="\\s*[!-~]*\\s*" title="A key has no spaces, and only ASCII characters." />
        <button>Use this key</button>
        <button type="button" class="quiet" onClick=${forget}>Forget the key</button>
      </div>
    </form>`
}

/** Asks for a key where the server wants one, and can forget the one that the tab uses. */
export function KeyField() {
  const { key, refusal } = useAccess()
  const forget = html`<button class="link" onClick=${() => setKey()}>Forget it</button>`
  if (!refusal) return key && html`<p class="hint">This tab uses an API key. ${forget}</p>`
  return html`<section class="card" aria-label="Access"><${KeyForm} problem=${refusalText(key, refusal)} /></section>`
}

/** Whether something has lasted so long that the page shows it. */
export function useIsLong(isOn) {
  const [isLong, setIsLong] = useState(false)
  // At once, not with the next frame.
  useLayoutEffect(() => {
    setIsLong(false)
    if (!isOn) return
    const timer = setTimeout(() => setIsLong(true), PROGRESS_AFTER_MS)
    return () => clearTimeout(timer)
  }, [isOn])
  return isOn && isLong
}

/** Runs one at a time. With the `name` of its key, it can be repeated after a lost answer, also after a reload. */
export function useAction(run, name) {
  const [action, setAction] = useState({})
  const isRunning = useRef(false)
  const isLong = useIsLong(action.isRunning)

  async function start(...values) {
    if (isRunning.current) return
    isRunning.current = true
    setAction(({ result }) => ({ result, isRunning: true }))
    try {
      setAction({ result: await run(...values) })
    } catch (error) {
      noteRefusal(error)
      setAction({ error })
    }
    isRunning.current = false
  }

  const isOpen = !action.isRunning && (!action.error || action.error.isOutcomeUnknown)
  const isUnanswered = isOpen && name !== undefined && client.remembered(name)
  return { ...action, isLong, isUnanswered, start }
}

/** The result, or that it `failed` and why, or the `doubt` and a button to repeat it, if the answer was lost. */
export function Outcome({ action, on, busy, text, failed, doubt }) {
  const { result, error, isLong, isUnanswered, start } = action
  const reason = error?.code === 'UNAUTHENTICATED' ? '.' : `: ${error?.message}`
  const problem = isUnanswered || error?.isOutcomeUnknown ? doubt : error && failed + reason
  return html`
    <div class="outcome" tabindex="-1">
      <p class="result" role="status">${isLong ? busy : result && text(result)}</p>
      <p class="problem" role="alert">${problem}</p>
      ${isUnanswered && html`<button class="link" aria-label=${`Try again: ${on}`} onClick=${andFocus('.outcome', () => start())}>Try again</button>`}
    </div>`
}

/** Handles a click on a button that disappears with the answer, which may not move the focus: the click does. */
export function andFocus(selector, act) {
  return ({ currentTarget }) => {
    currentTarget.closest(selector).focus()
    act()
  }
}

/** A text to copy, below a line with what it is and the button. */
export function Copyable({ text, label, button = 'Copy', children }) {
  const source = useRef()
  const [done, setDone] = useState({})
  async function copy() {
    // Browsers give pages the clipboard on https and on this machine only.
    getSelection().selectAllChildren(source.current)
    const copying = navigator.clipboard?.writeText(text).then(() => 'Copied.')
    setDone({ text, result: (await copying?.catch(() => {})) ?? 'Selected: press Ctrl+C to copy.' })
  }
  return html`
    <div class="line ends">
      ${children ?? html`<span class="hint">${label}</span>`} <span role="status">${done.text === text && done.result}</span>
      <button type="button" class="link" onClick=${copy}>${button}</button>
    </div>
    <pre tabindex="0" aria-label=${label}><code ref=${source}>${text}</code></pre>`
}

/** A value of this tab that survives a reload; undefined removes it. */
export function useKept(name, initial) {
  const [value, setValue] = useState(() => JSON.parse(sessionStorage.getItem(name) ?? 'null') ?? initial)
  function keep(next) {
    if (next === undefined) sessionStorage.removeItem(name)
    else sessionStorage.setItem(name, JSON.stringify(next))
    setValue(next)
  }
  return [value, keep]
}

const formats = new Intl.NumberFormat('en')
const ordinals = new Intl.PluralRules('en', { type: 'ordinal' })
const ENDINGS = { one: 'st', two: 'nd', few: 'rd', other: 'th' }

export const number = (value) => formats.format(value)

/** The style by which the type of a number is as large as leaves it whole. */
export const sized = (text) => ({ '--length': text.length })

export const ordinal = (value) => number(value) + ENDINGS[ordinals.select(value)]

export const amount = (value, singular, plural = `${singular}s`) =>
  `${number(value)} ${value === 1 ? singular : plural}`
