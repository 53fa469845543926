// The sequences of a namespace: a page of a list.

import { linkTo } from '../address.js'
import { element, nameOf } from '../elements.js'
import { timeText } from '../formats.js'
import { listOf, openForm, readList, searchForm, summaryOf } from '../lists.js'
import { PAGE_ARGUMENTS, PAGE_INFO, PAGE_VARIABLES, pageIn } from '../paging.js'
import { ask } from '../request.js'

export async function sequencesView(address) {
  const { namespace: name, prefix = '' } = address
  const { namespace, refusal } = await readList(
    ask(
      `query Sequences($name: String!, $prefix: String!, ${PAGE_VARIABLES}) {
      namespace(name: $name) {
        sequences(prefix: $prefix, ${PAGE_ARGUMENTS}) { nodes { name format gapless createdAt } ${PAGE_INFO} }
      }
    }`,
      { name, prefix, ...pageIn(address) },
    ),
  )
  const list = listOf(address, {
    caption: 'Sequences',
    columns: ['Sequence', 'Format', 'Created'],
    connection: namespace?.sequences,
    refusal,
    rowOf: (sequence) => rowOf(name, sequence),
    empty: 'No sequence was used or defined in this namespace.',
  })
  const hint = 'Also a new one: a sequence is created on first use.'
  const open = openForm('Sequence', hint, (sequence) => ({ namespace: name, sequence }))
  return {
    title: ['Sequences of ', nameOf(name)],
    names: [name],
    summary: summaryOf(namespace?.sequences),
    content: [searchForm(address), ...list, open],
  }
}

function rowOf(namespace, { name, format, gapless, createdAt }) {
  const text = format === null ? 'the number' : nameOf(format)
  return element(
    'tr',
    {},
    element('th', { scope: 'row' }, linkTo({ namespace, sequence: name }, {}, nameOf(name))),
    element('td', {}, text, gapless ? ', gapless' : null),
    element('td', { class: 'time' }, timeText(createdAt)),
  )
}
