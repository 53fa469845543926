// The counters of a namespace: a page of a list, with live values.

import { setText } from '../../messages.js'
import { linkTo } from '../address.js'
import { element, nameOf } from '../elements.js'
import { numberText, timeText } from '../formats.js'
import { listOf, openForm, readList, searchForm, summaryOf } from '../lists.js'
import { keepLive } from '../live.js'
import { PAGE_ARGUMENTS, PAGE_INFO, PAGE_VARIABLES, pageIn } from '../paging.js'
import { ask } from '../request.js'

const ORDERS = [
  ['NAME_ASC', 'Name'],
  ['VALUE_DESC', 'Highest value first'],
  ['VALUE_ASC', 'Lowest value first'],
  ['UPDATED_AT_DESC', 'Last changed first'],
]

const LIVE = `subscription LiveCounters($ids: [ID!]!) {
  nodes(ids: $ids) { ... on Counter { id revision value updatedAt } }
}`

export async function countersView(address, signal) {
  const { namespace: name, prefix = '', order = 'NAME_ASC' } = address
  const { namespace, refusal } = await readList(
    ask(
      `query Counters($name: String!, $prefix: String!, $order: CounterOrder!, ${PAGE_VARIABLES}) {
      namespace(name: $name) {
        counters(prefix: $prefix, orderBy: $order, ${PAGE_ARGUMENTS}) {
          nodes { id name revision value updatedAt }
          ${PAGE_INFO}
        }
      }
    }`,
      { name, prefix, order, ...pageIn(address) },
    ),
  )
  const connection = namespace?.counters
  const rows = new Map(connection?.nodes.map((counter) => [counter.id, openRow(name, counter)]))
  const list = listOf(address, {
    caption: 'Counters',
    columns: ['Counter', ['Value', 'amount'], 'Last change'],
    connection,
    refusal,
    rowOf: ({ id }) => rows.get(id).row,
    empty: 'No counter was written or defined in this namespace.',
  })
  const hint = 'Also a new one: a counter is created on first use.'
  const open = openForm('Counter', hint, (counter) => ({ namespace: name, counter }))
  return {
    title: ['Counters of ', nameOf(name)],
    names: [name],
    summary: summaryOf(connection),
    content: [searchForm(address, ORDERS), ...list, open],
    start: () => keepLive(LIVE, { ids: [...rows.keys()] }, (node) => rows.get(node.id)?.show(node), signal),
  }
}

function openRow(namespace, counter) {
  const [value, updatedAt] = [element('td', { class: 'amount' }), element('td', { class: 'time' })]
  let revision = 0
  /** Shows a state unless a newer one is shown. */
  function show(state) {
    if (state.revision < revision) return
    revision = state.revision
    setText(value, numberText(state.value))
    setText(updatedAt, timeText(state.updatedAt))
  }
  show(counter)
  const link = linkTo({ namespace, counter: counter.name }, {}, nameOf(counter.name))
  return { row: element('tr', {}, element('th', { scope: 'row' }, link), value, updatedAt), show }
}
