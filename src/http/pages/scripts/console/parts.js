// What the views of the console share: addresses, names, times, rights in words, pages of lists, and live numbers.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { useLive } from '/live.js'
import { client, html, isRefused, noteRefusal, number } from '/page.js'

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

/** What a caller named, as it is written: its spaces are seen, and its direction doesn't reorder the text around it. */
export const Name = ({ text }) => html`<bdi class="name">${text}</bdi>`
export const NameLink = ({ text, ...parts }) => html`<a href=${addressOf(parts)}><${Name} text=${text} /></a>`

/** A name within a sentence, isolated from its direction as in an element `bdi`. */
export const quoted = (name) => `“\u2068${name}\u2069”`

export const numberText = (value) => (value == null ? '–' : number(value))
export const addedText = (value) => (value > 0 ? '+' : '') + numberText(value)

/** A number that lights up for a moment when it has changed. */
export function Moving({ value }) {
  const [first] = useState(value)
  return html`<span key=${value} class=${value === first ? undefined : 'moved'}>${numberText(value)}</span>`
}

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
    // Of what all namespaces have, those are shown that the key allows.
    const connection = error.data && connectionIn(error.data)
    if (!error.data?.namespaces) noteRefusal(error)
    return { connection, refusal: error }
  }
}

/** `rowOf` returns the cells of an item; `columns` are pairs of heading and class; `empty` says why there is nothing. */
export function List({ address, caption, columns, connection, refusal, rowOf, empty }) {
  if (!connection) return html`<p class="none">${refusal ? refusal.message : empty}</p>`
  const { nodes, pageInfo } = connection
  const isFirst = address.after === undefined && address.before === undefined
  const reason = address.prefix === undefined ? empty : `Nothing starts with ${quoted(address.prefix)}.`
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
    ${nodes.length > 0 ? table : html`<p class="none">${isFirst ? reason : 'Nothing is on this page any more.'}</p>`}
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

/** A form that searches by the beginning of names, sorts by `orders`, and goes to where `open` says a name is. */
export function NameForm({ address, orders, hint, open }) {
  const field = useTyped(address.prefix)
  function submit(event) {
    event.preventDefault()
    const { prefix, order } = event.currentTarget.closest('form').elements
    if (event.submitter?.value === 'open')
      return prefix.value === '' ? prefix.focus() : go(open(prefix.value))
    // The API sorts whole namespaces only.
    const isSorted = order && prefix.value === '' && order.value !== orders[0][0]
    const search = { prefix: prefix.value || undefined, order: isSorted ? order.value : undefined }
    go({ ...address, ...search, after: undefined, before: undefined })
  }
  const order = () => html`
    <div class="field">
      <label for="order">Order</label>
      <select id="order" value=${address.order ?? orders[0][0]} onChange=${submit} aria-describedby="order-hint">
        ${orders.map(([value, text]) => html`<option value=${value}>${text}</option>`)}
      </select>
      <p class="hint" id="order-hint">Search results are in the order of names.</p>
    </div>`
  return html`
    <form class="line" role="search" aria-label="Names in the list" onSubmit=${submit}>
      <div class="field">
        <label for="prefix">Name, or its beginning</label>
        <input type="search" id="prefix" ref=${field} maxlength="191" autocomplete="off" spellcheck=${false} />
        <p class="hint">${hint}</p>
      </div>
      <button class="quiet">Search</button>
      ${open && html`<button class="quiet" value="open">Open</button>`} ${orders && order()}
    </form>`
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
