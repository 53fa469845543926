import { expect, it } from 'vitest'
import { createCounters } from '../support/browser/console.ts'
import { startService } from '../support/server/service.ts'

const LIST = `query($prefix: String! = "", $contains: String! = "", $first: Int, $after: String, $last: Int, $before: String) {
  namespace(name: "n") {
    counters(prefix: $prefix, contains: $contains, first: $first, after: $after, last: $last, before: $before) {
      nodes { name value }
      edges { cursor node { name } }
      pageInfo { startCursor endCursor hasNextPage hasPreviousPage }
    }
  }
}`

async function serviceWith(names: string[]) {
  const service = await startService()
  for (const name of names) {
    await service.ask('mutation($name: String!) { increment(name: $name, namespace: "n") { value } }', {
      name,
    })
  }
  const list = async (variables: Record<string, unknown> = {}) =>
    (await service.ask(LIST, variables)).namespace.counters
  return { ...service, list }
}

const namesOf = (page: { nodes: { name: string }[] }) => page.nodes.map(({ name }) => name)

it('namespace.counters: lists by the code points of names', async () => {
  const { list, ask } = await serviceWith(['b', 'a', '😀', 'ａ', 'B', 'á'])
  await ask('mutation { increment(name: "elsewhere", namespace: "m") { value } }')
  expect(namesOf(await list())).toEqual(['B', 'a', 'b', 'á', 'ａ', '😀'])
})

it('prefix: selects names that begin with it, whatever its characters', async () => {
  const { list } = await serviceWith(['a', 'ab', 'ab%', 'ac', 'b', 'ÿ', 'ÿz', '\u{10FFFF}x'])
  expect(namesOf(await list({ prefix: 'ab' }))).toEqual(['ab', 'ab%'])
  expect(namesOf(await list({ prefix: 'ab%' }))).toEqual(['ab%'])
  expect(namesOf(await list({ prefix: 'ÿ' }))).toEqual(['ÿ', 'ÿz'])
  expect(namesOf(await list({ prefix: '\u{10FFFF}' }))).toEqual(['\u{10FFFF}x'])
  expect(namesOf(await list({ prefix: '_' }))).toEqual([])
})

it('contains: finds names with a text, whatever its characters and in any case', async () => {
  const { list, ask } = await serviceWith([
    'Visitors',
    'VISITS',
    'été',
    'ÉTÉ',
    'ete',
    '50%',
    '50 _',
    '😀a',
    '😁a',
  ])
  const find = async (contains: string, more = {}) => namesOf(await list({ contains, ...more }))
  expect(await find('sit')).toEqual(['VISITS', 'Visitors'])
  expect(await find('Sit', { prefix: 'V' })).toEqual(['VISITS', 'Visitors'])
  expect(await find('ors', { prefix: 'VI' })).toEqual([])
  expect(await find('TÉ')).toEqual(['ÉTÉ', 'été'])
  expect([await find('%'), await find('_'), await find('😀')]).toEqual([['50%'], ['50 _'], ['😀a']])
  expect(await find("'")).toEqual([])
  await ask(`mutation {
    a: nextInSequence(name: "Tickets", group: "NINJA", namespace: "n") { value }
    b: nextInSequence(name: "other", namespace: "elsewhere") { value }
  }`)
  const { namespaces, namespace, sequence } = await ask(`{
    namespaces(contains: "SEW") { nodes { name } }
    namespace(name: "n") { sequences(contains: "ticket") { nodes { name } } }
    sequence(name: "Tickets", namespace: "n") { groups(contains: "inj") { nodes { name } } }
  }`)
  expect([namespaces, namespace.sequences, sequence.groups].map(namesOf)).toEqual([
    ['elsewhere'],
    ['Tickets'],
    ['NINJA'],
  ])
})

it('contains: searches so many names at a time, and goes on after the last of them', {
  tags: 'slow',
}, async () => {
  const { list, ask } = await serviceWith([])
  await createCounters(ask, 'n', 12_000)
  const first = await list({ contains: '9999' })
  expect(first).toMatchObject({ nodes: [], pageInfo: { hasNextPage: true, startCursor: null } })
  const next = await list({ contains: '9999', after: first.pageInfo.endCursor })
  expect(namesOf(next)).toEqual(['name 9999'])
  expect(next.pageInfo).toMatchObject({ hasNextPage: false, hasPreviousPage: true })
  // A page that is full ends with its last name.
  const full = await list({ contains: '999', first: 2 })
  expect(namesOf(full)).toEqual(['name 0999', 'name 10999'])
  const rest = await list({ contains: '999', after: full.pageInfo.endCursor })
  expect(namesOf(rest)[0]).toBe('name 11999')
  const last = await list({ contains: 'name 0001', last: 5 })
  expect(last).toMatchObject({ nodes: [], pageInfo: { hasPreviousPage: true, hasNextPage: false } })
  const before = await list({ contains: 'name 0001', last: 5, before: last.pageInfo.startCursor })
  expect(namesOf(before)).toEqual(['name 0001'])
})

it('first: is 50 by default; a page may be empty, without cursors', async () => {
  const { list, ask } = await serviceWith([])
  await createCounters(ask, 'n', 52)
  const page = await list()
  expect(namesOf(page)).toHaveLength(50)
  expect(page.pageInfo.hasNextPage).toBe(true)
  const empty = await list({ prefix: 'zz' })
  expect(empty).toEqual({
    nodes: [],
    edges: [],
    pageInfo: { startCursor: null, endCursor: null, hasNextPage: false, hasPreviousPage: false },
  })
  expect(namesOf(await list({ first: 0 }))).toEqual([])
})

it.each([
  [{ first: 501 }, 'first', 500],
  [{ last: 501 }, 'last', 500],
  [{ first: -1 }, 'first', 0],
  [{ first: 1, last: 1 }, 'last'],
  [{ after: 'no cursor!' }, 'after'],
  [{ contains: 'a\nb' }, 'contains'],
  [{ prefix: 'a\nb' }, 'prefix'],
])('arguments: %j are refused', async (page, argument, limit?: number) => {
  const { refusal } = await startService()
  expect(await refusal(LIST, page)).toEqual({
    code: 'BAD_USER_INPUT',
    argument,
    ...(limit !== undefined && { limit }),
  })
})

const NAMESPACES = `query($prefix: String! = "", $first: Int, $after: String, $last: Int, $before: String) {
  namespaces(prefix: $prefix, first: $first, after: $after, last: $last, before: $before) {
    nodes { id name timeZone }
    pageInfo { endCursor hasNextPage }
  }
}`

it('namespaces: lists those that hold a counter or a sequence', async () => {
  const { ask, refusal } = await startService()
  await ask(`mutation {
    defineNamespace(name: "b", definition: { timeZone: "Asia/Tokyo" }) { id }
    a: increment(name: "c", namespace: "b") { value }
    b: nextInSequence(name: "s", namespace: "a") { value }
    c: defineSequence(name: "s", namespace: "b1", definition: { step: 2 }) { id }
    d: defineCounter(name: "c", namespace: "B", definition: { maxValue: 0 }) { id }
    only: defineNamespace(name: "only defined", definition: {}) { id }
    e: increment(name: "c", namespace: "emptied") { value }
    f: deleteCounter(name: "c", namespace: "emptied") { value }
  }`)
  const list = async (page: object = {}) => (await ask(NAMESPACES, { ...page })).namespaces
  const all = await list()
  expect(namesOf(all)).toEqual(['B', 'a', 'b', 'b1'])
  expect(all.nodes[2].timeZone).toBe('Asia/Tokyo')
  expect((await ask('{ namespace(name: "b") { id } }')).namespace.id).toBe(all.nodes[2].id)
  expect(namesOf(await list({ prefix: 'b' }))).toEqual(['b', 'b1'])
  const first = await list({ first: 3 })
  expect(first.pageInfo.hasNextPage).toBe(true)
  expect(namesOf(await list({ after: first.pageInfo.endCursor }))).toEqual(['b1'])
  expect(namesOf(await list({ last: 2 }))).toEqual(['b', 'b1'])
  expect(await refusal(NAMESPACES, { first: 1, last: 1 })).toMatchObject({ argument: 'last' })
})

it('queries: keep the fields beside a refused one, whichever it is', async () => {
  const { send } = await startService()
  const { data, errors } = await send(`{
    a: counter(name: "") { value }
    b: counters(names: ["c", ""]) { value }
    c: sequence(name: "") { name }
    d: namespace(name: "") { name }
    e: namespaces(first: 501) { nodes { name } }
    f: node(id: "x") { id }
    g: nodes(ids: ["x"]) { id }
    fine: counter(name: "c") { value }
  }`)
  const empty = { a: null, b: null, c: null, d: null, e: null, f: null, g: null }
  expect(data).toEqual({ ...empty, fine: { value: 0 } })
  expect(errors?.map(({ path }) => path?.[0]).toSorted()).toEqual(Object.keys(empty))
})
