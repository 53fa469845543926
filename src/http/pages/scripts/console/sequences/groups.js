// The groups of a sequence that have issued numbers: a page of a list.

import { setText } from '../../messages.js'
import { linkTo } from '../address.js'
import { element, nameOf } from '../elements.js'
import { timeText } from '../formats.js'
import { listOf, searchForm } from '../lists.js'

/** What the console reads of a group. */
export const GROUP = 'id name revision lastValue lastFormatted nextValue nextFormatted updatedAt'

/** Shows a page of the groups, which can be replaced, and whose rows show newer states. */
export function openGroups(address, sequence) {
  const place = element('div')
  const [last, next] = sequence.gapless
    ? ['Furthest number', 'First free number']
    : ['Last number', 'Next number']
  let rows = new Map()

  function replace(connection) {
    rows = new Map(connection.nodes.map((group) => [group.id, openRow(address, group)]))
    const list = listOf(address, {
      caption: 'Groups',
      columns: ['Group', last, next, 'Last issued'],
      connection,
      rowOf: ({ id }) => rows.get(id).row,
      empty: 'No number was issued yet.',
    })
    place.replaceChildren(...list)
  }

  replace(sequence.groups)
  return {
    element: element('div', {}, searchForm(address), place),
    ids: () => [...rows.keys()],
    replace,
    /** Shows a state of a group unless a newer one is shown. Returns whether it has a row here. */
    show(state) {
      rows.get(state.id)?.show(state)
      return rows.has(state.id)
    },
  }
}

function openRow(address, group) {
  const cells = [
    element('td', { class: 'name' }),
    element('td', { class: 'name' }),
    element('td', { class: 'time' }),
  ]
  let revision = 0
  function show(state) {
    if (state.revision < revision) return
    revision = state.revision
    const texts = [
      state.lastFormatted ?? 'none',
      state.nextFormatted ?? 'exhausted',
      timeText(state.updatedAt),
    ]
    for (const [index, text] of texts.entries()) setText(cells[index], text)
  }
  show(group)
  const { name } = group
  const text = name === '' ? element('em', {}, 'without a name') : nameOf(name)
  const link = linkTo({ ...address, group: name }, {}, text)
  return { row: element('tr', {}, element('th', { scope: 'row' }, link), cells), show }
}
