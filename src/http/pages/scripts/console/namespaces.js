// All namespaces, to choose one.

import { linkTo } from './address.js'
import { element, nameOf } from './elements.js'
import { listOf, openForm, readList, searchForm, summaryOf } from './lists.js'
import { PAGE_ARGUMENTS, PAGE_INFO, PAGE_VARIABLES, pageIn } from './paging.js'
import { ask } from './request.js'

export async function namespacesView(address) {
  const { prefix = '' } = address
  const { namespaces, refusal } = await readList(
    ask(
      `query Namespaces($prefix: String!, ${PAGE_VARIABLES}) {
      namespaces(prefix: $prefix, ${PAGE_ARGUMENTS}) { nodes { name timeZone } ${PAGE_INFO} }
    }`,
      { prefix, ...pageIn(address) },
    ),
  )
  const list = listOf(address, {
    caption: 'Namespaces',
    columns: ['Namespace', 'Time zone of new names'],
    connection: namespaces,
    refusal,
    rowOf: ({ name, timeZone }) =>
      element(
        'tr',
        {},
        element('th', { scope: 'row' }, linkTo({ namespace: name }, {}, nameOf(name))),
        element('td', {}, timeZone),
      ),
    empty: 'Nothing has been counted or numbered yet. Open a namespace, and create a counter or a sequence.',
  })
  const hint = 'A namespace needs no creation: it is there once it has a counter or a sequence.'
  const isEmpty = namespaces?.nodes.length === 0
  const open = openForm('Namespace', hint, (namespace) => ({ namespace }), isEmpty ? 'default' : '')
  return {
    title: 'Namespaces',
    summary: summaryOf(namespaces),
    content: [searchForm(address), ...list, open],
  }
}
