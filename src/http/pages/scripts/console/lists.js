// What the lists of the console have in common: a search by prefix, a table, pages, and a field for a name.

import { go, linkTo } from './address.js'
import { element, table } from './elements.js'
import { quoted } from './formats.js'
import { choiceField, clearProblems, controlIn, textField } from './forms/fields.js'
import { pager } from './paging.js'
import { isRefusal } from './request.js'

/** A form that searches by the beginning of names, and may sort: `orders` are pairs of value and text. */
export function searchForm(address, orders = []) {
  const { prefix = '', order } = address
  const fields = [
    textField('prefix', 'Starts with', 'prefix', { value: prefix, maxlength: 191, type: 'search' }),
  ]
  if (orders.length > 0) {
    const hint = 'Search results are in the order of names.'
    fields.push(choiceField('order', 'Order', 'orderBy', orders, { value: order, hint, change: submit }))
  }
  function submit(event) {
    event.preventDefault()
    const wanted = controlIn(form, 'prefix').value
    const chosen = controlIn(form, 'order')?.value
    // The API sorts whole namespaces only.
    const isSorted = chosen !== undefined && wanted === '' && chosen !== orders[0][0]
    go({
      ...address,
      prefix: wanted === '' ? undefined : wanted,
      order: isSorted ? chosen : undefined,
      after: undefined,
      before: undefined,
    })
  }
  const form = element(
    'form',
    { class: 'line', role: 'search', submit },
    fields,
    element('button', { type: 'submit', id: 'search' }, 'Search'),
  )
  return form
}

/** A form that opens what has a name, whether it exists or not. */
export function openForm(label, hint, partsOf, value = '') {
  function submit(event) {
    event.preventDefault()
    clearProblems(form)
    const name = controlIn(form, 'open').value
    if (name !== '') go(partsOf(name))
  }
  const form = element(
    'form',
    { class: 'line', submit },
    textField('open', label, 'name', { hint, value, required: true }),
    element('button', { type: 'submit', class: 'quiet' }, 'Open'),
  )
  return form
}

/**
 * Reads a list, or why the caller may not: the forms beside it stay, as a key may allow single names, or a prefix only.
 */
export async function readList(promise) {
  try {
    return await promise
  } catch (error) {
    if (isRefusal(error)) return { refusal: error.message }
    throw error
  }
}

/** What a screen reader says once a page of a list is shown. */
export function summaryOf({ nodes, pageInfo } = { nodes: [], pageInfo: {} }) {
  return `${nodes.length} shown${pageInfo.hasNextPage ? ', more on the next page' : ''}.`
}

/** A table of a page of a list with links to the others; `empty` says what it means that there is nothing. */
export function listOf(address, { caption, columns, connection, refusal, rowOf, empty }) {
  if (refusal !== undefined) return [element('p', { class: 'none' }, refusal)]
  const { nodes, pageInfo } = connection
  const { prefix = '', after, before } = address
  if (nodes.length > 0) return [table(caption, columns, nodes.map(rowOf)), pager(address, pageInfo)]
  if (after !== undefined || before !== undefined) {
    const first = linkTo({ ...address, after: undefined, before: undefined }, {}, 'The first page')
    return [element('p', { class: 'none' }, 'Nothing is on this page any more. ', first)]
  }
  return [element('p', { class: 'none' }, prefix === '' ? empty : `Nothing starts with ${quoted(prefix)}.`)]
}
