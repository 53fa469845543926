// What the views of the console share: addresses, names, times, rights in words, pages of lists, and live numbers.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { useLive } from '/live.js'
import { client, html, isRefused, noteRefusal, number, sized } from '/page.js'

/** The parts of the present address, all of them texts: `view`, `namespace`, `list`, `counter`, `sequence`, … */
export const readAddress = () => Object.fromEntries(new URLSearchParams(location.search))

/** An address of these parts; those that are undefined are left out. */
export function addressOf(parts) {
  const present = Object.entries(parts).filter(([, value]) => value !== undefined)
  return present.length === 0 ? '/console' : `/console?${new URLSearchParams(present)}`
}

/** Goes to an address as if by a link; or instead of the present one, so that "back" doesn't return to it. */
export function go(parts, isInstead = false) {
  history[isInstead ? 'replaceState' : 'pushState'](null, '', addressOf(parts))
  dispatchEvent(new Event('popstate'))
}

/** Goes elsewhere from what was deleted, unless the person has gone already. */
export const leave = (kind, name, parts) => readAddress()[kind] === name && go(parts)

/** A name that nobody would see: of spaces, and of what has neither width nor ink. */
const INVISIBLE = /^[\p{Z}\p{Cf}\p{Cn}\p{Default_Ignorable_Code_Point}\u2800]+$/u

/** A name to be seen: an invisible one with escapes, as in GraphQL and JSON. */
export const seen = (name) =>
  INVISIBLE.test(name)
    ? name.replace(/./g, (unit) => `\\u${unit.charCodeAt().toString(16).padStart(4, '0')}`)
    : name

/** What a caller named, as it is written: its spaces are seen, and its direction doesn't reorder the text around it. */
export const Name = ({ text }) =>
  html`<bdi class="name">${INVISIBLE.test(text) ? html`<em>${seen(text)}</em>` : text}</bdi>`
export const NameLink = ({ text, ...parts }) => html`<a href=${addressOf(parts)}><${Name} text=${text} /></a>`

/** A name within a sentence, isolated from its direction as in an element `bdi`. */
export const quoted = (name) => `“\u2068${seen(name)}\u2069”`

export const numberText = (value) => (value == null ? '–' : number(value))
export const addedText = (value) => (value > 0 ? '+' : '') + numberText(value)

/** A number that lights up for a moment when it has changed. */
export function Moving({ value }) {
  const [first] = useState(value)
  return html`<span key=${value} class=${value === first ? undefined : 'moved'}>${numberText(value)}</span>`
}

/** The same as the one large number of its place. */
export const Value = ({ value }) =>
  html`<p class="value" style=${sized(numberText(value))}><${Moving} value=${value} /></p>`

const time = { hour: '2-digit', minute: '2-digit' }
const date = { day: 'numeric', month: 'short' }
const [ofToday, ofYear, older] = [time, { ...date, ...time }, { ...date, year: 'numeric' }].map(
  (parts) => new Intl.DateTimeFormat('en', { ...parts, hourCycle: 'h23' }),
)
const whole = new Intl.DateTimeFormat('en', { dateStyle: 'full', timeStyle: 'long' })

/** In the time zone of the person, as short as it can be: 14:02 today; then Nov 24, 14:02; and Nov 24, 2025. */
export function timeText(instant, never = 'never') {
  if (instant == null) return never
  const [then, now] = [new Date(instant), new Date()]
  if (then.toDateString() === now.toDateString()) return ofToday.format(then)
  return (then.getFullYear() === now.getFullYear() ? ofYear : older).format(then)
}

export function Time({ at, never }) {
  const details = at == null ? {} : { datetime: at, title: whole.format(new Date(at)) }
  return html`<time class="time" ...${details}>${timeText(at, never)}</time>`
}

const lists = new Intl.ListFormat('en')

const VERBS = {
  READ: () => 'read',
  ADD: ({ maxDelta }) => (maxDelta > 1 ? `add up to ${number(maxDelta)}` : 'add 1'),
  NUMBER: ({ maxCount }) =>
    maxCount > 1 ? `take up to ${number(maxCount)} numbers at a time` : 'take numbers',
  HOLD: ({ maxDelta }) => `hold ${maxDelta > 1 ? `up to ${number(maxDelta)}` : 1}`,
  WRITE: () => 'change, reset and delete values',
  DEFINE: () => 'define',
}

/** What a grant allows: "read and add up to 5 on names that start with “a” in “shop”". */
function grantText({ scopes, namespace, names, prefix, ...limits }) {
  if (scopes.includes('ADMIN')) return 'do everything, also manage API keys'
  const verbs = lists.format(scopes.map((scope) => VERBS[scope](limits)))
  const start = prefix === '' ? 'every name' : `names that start with ${quoted(prefix)}`
  const text = names ? lists.format(names.map(quoted)) : start
  const place = namespace === null ? 'every namespace' : quoted(namespace)
  return `${verbs} on ${text} in ${place}${limits.onceOnly ? ', once per subject' : ''}`
}

export const rightsText = (grants) => grants.map(grantText).join('; ') || 'do nothing here'

export const Section = ({ title, children }) =>
  html`<section class="card panel" aria-label=${title}><h3>${title}</h3>${children}</section>`

/** Which names a list has: arguments, and their declarations as variables. */
export const NAME_VARIABLES = '$prefix: String! = "", $contains: String! = ""'
export const NAME_ARGUMENTS = 'prefix: $prefix, contains: $contains'

/** Arguments of a list, and their declarations as variables. */
export const PAGE_VARIABLES = '$first: Int, $after: String, $last: Int, $before: String'
export const PAGE_ARGUMENTS = 'first: $first, after: $after, last: $last, before: $before'
export const PAGE_INFO = 'pageInfo { hasNextPage hasPreviousPage startCursor endCursor }'

/** The values of these variables: nothing is loaded that isn't shown. */
export const pageIn = ({ after, before }, size = 50) =>
  before === undefined ? { first: size, after } : { last: size, before }

/** Reads a list, or why the caller may not: a key may allow single names, or a prefix only, and what is beside it stays. */
export async function readList(query, variables, signal, connectionIn) {
  try {
    return { connection: connectionIn(await client.query(query, variables, { signal })) }
  } catch (error) {
    if (!isRefused(error)) throw error
    // Whoever may not search all names may search those that start with a text.
    const { contains, ...others } = variables
    const started = contains && (await readList(query, { ...others, prefix: contains }, signal, connectionIn))
    // Of what all namespaces have, those are shown that the key allows.
    const allowed = error.data && connectionIn(error.data)
    if (started?.connection) {
      const nodes = [...(allowed?.nodes ?? []), ...started.connection.nodes]
      const byId = new Map(nodes.map((node) => [node.id ?? node.name, node]))
      return { ...started, connection: { ...started.connection, nodes: [...byId.values()] } }
    }
    if (!error.data?.namespaces) noteRefusal(error)
    return { connection: allowed, refusal: error }
  }
}

/** `rowOf` returns the cells of an item; `columns` are pairs of heading and class; `empty` says why there is nothing. */
export function List({ address, caption, columns, connection, refusal, rowOf, empty }) {
  // Beside the field for a key stands why there is none.
  if (!connection) return html`<p class="none">${!refusal && empty}</p>`
  const { nodes, pageInfo } = connection
  const isFirst = address.after === undefined && address.before === undefined
  const { contains } = address
  const range = pageInfo.hasNextPage ? ' among these names. The next page searches more of them' : ''
  const reason = contains === undefined ? empty : `Nothing contains ${quoted(contains)}${range}.`
  const cellOf = (cell, index) => html`<td class=${columns[index + 1][1]}>${cell}</td>`
  const itemOf = (node) => {
    const [head, ...cells] = rowOf(node)
    return html`<tr key=${node.id ?? node.name}><th scope="row">${head}</th>${cells.map(cellOf)}</tr>`
  }
  const linkTo = (text, cursors) =>
    html`<a href=${addressOf({ ...address, after: undefined, before: undefined, ...cursors })}>${text}</a>`
  const { hasNextPage, hasPreviousPage, startCursor, endCursor } = pageInfo
  const links = [
    ...(isFirst ? [] : [linkTo('First', {})]),
    ...(hasPreviousPage ? [linkTo('Previous', { before: startCursor })] : []),
    ...(hasNextPage ? [linkTo('Next', { after: endCursor })] : []),
  ]
  const table = html`
    <table>
      <caption class="unseen">${caption}</caption>
      <thead><tr>${columns.map(([text, kind]) => html`<th scope="col" class=${kind}>${text}</th>`)}</tr></thead>
      <tbody>${nodes.map(itemOf)}</tbody>
    </table>`
  return html`
    ${nodes.length > 0 ? table : html`<p class="none">${isFirst || contains !== undefined ? reason : 'Nothing is on this page any more.'}</p>`}
    ${links.length > 0 && html`<nav class="line links" aria-label="Pages of the list">${links}</nav>`}`
}

/** A reference to a field that shows a text of the address, unless a person is typing there, who is ahead of it. */
export function useTyped(text = '') {
  const field = useRef()
  useLayoutEffect(() => {
    if (document.activeElement !== field.current) field.current.value = text
  }, [text])
  return field
}

/** How long to wait after a letter before names are searched, in milliseconds. */
const SEARCH_AFTER_MS = 200

/** A field whose text `show` searches, as somebody types: the first time as a step, then instead of the last text. */
export function Search({ label, text, show }) {
  const timer = useRef()
  const field = useTyped(text)
  function search(event) {
    event.preventDefault()
    clearTimeout(timer.current)
    const act = () => show(field.current.value || undefined, text !== undefined)
    timer.current = setTimeout(act, event.type === 'submit' ? 0 : SEARCH_AFTER_MS)
  }
  return html`
    <form role="search" aria-label=${label} onSubmit=${search} onInput=${search}>
      <input type="search" ref=${field} aria-label=${label} placeholder=${label} maxlength="191" autocomplete="off" spellcheck=${false} />
    </form>`
}

/** Links to what has the name that was searched, whether it exists or not. */
export function Elsewhere({ links, children }) {
  const linkOf = ([text, address], index) => [
    index > 0 && ' or ',
    html`<a href=${addressOf(address)}>${text}</a>`,
  ]
  return html`<div class="muted">${children} Names need no creation: open ${links.map(linkOf)}.</div>`
}

/** How often a visible page reads what no subscription sends, in milliseconds. */
const LOOK_MS = 5000

export function useLookingAgain(readAgain) {
  useEffect(() => {
    const timer = setInterval(() => document.hidden || readAgain(), LOOK_MS)
    return () => clearInterval(timer)
  }, [])
}

/** Keeps `nodes` at their newest states by a subscription with their ids. `show` takes what is heard elsewhere. */
export function useNodes(document, nodes, variables) {
  const ids = nodes.map(({ id }) => id)
  const watched = ids.length === 0 ? undefined : { ids, ...variables }
  const { states, show, live } = useLive(document, watched, { by: 'id' })
  const newest = nodes.map((node) => ({ ...node, ...states[node.id] }))
  return { nodes: newest, show, live: { ...live, hasNumbers: true } }
}
