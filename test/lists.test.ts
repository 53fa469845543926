import { expect, it } from 'vitest'
import { startService } from './support/service.ts'

const LIST = `query($prefix: String! = "", $first: Int, $after: String, $last: Int, $before: String) {
  namespace(name: "n") {
    counters(prefix: $prefix, first: $first, after: $after, last: $last, before: $before) {
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

it('lists the counters of a namespace by the code points of their names', async () => {
  const { list, ask } = await serviceWith(['b', 'a', '😀', 'ａ', 'B', 'á'])
  await ask('mutation { increment(name: "elsewhere", namespace: "m") { value } }')
  expect(namesOf(await list())).toEqual(['B', 'a', 'b', 'á', 'ａ', '😀'])
})

it('pages forward and backward without missing or repeating any', async () => {
  const names = Array.from({ length: 23 }, (_, index) => `name ${String(index).padStart(2, '0')}`)
  const { list } = await serviceWith(names)
  const forward: string[] = []
  let page = await list({ first: 5 })
  expect(page.pageInfo.hasPreviousPage).toBe(false)
  forward.push(...namesOf(page))
  while (page.pageInfo.hasNextPage) {
    page = await list({ first: 5, after: page.pageInfo.endCursor })
    forward.push(...namesOf(page))
  }
  expect(forward).toEqual(names)
  const backward: string[] = []
  page = await list({ last: 5 })
  backward.unshift(...namesOf(page))
  while (page.pageInfo.hasPreviousPage) {
    page = await list({ last: 5, before: page.pageInfo.startCursor })
    backward.unshift(...namesOf(page))
  }
  expect(backward).toEqual(names)
})

it('lists only names with a prefix, however odd it is', async () => {
  const { list } = await serviceWith(['a', 'ab', 'ab%', 'ac', 'b', 'ÿ', 'ÿz', '\u{10FFFF}x'])
  expect(namesOf(await list({ prefix: 'ab' }))).toEqual(['ab', 'ab%'])
  expect(namesOf(await list({ prefix: 'ab%' }))).toEqual(['ab%'])
  expect(namesOf(await list({ prefix: 'ÿ' }))).toEqual(['ÿ', 'ÿz'])
  expect(namesOf(await list({ prefix: '\u{10FFFF}' }))).toEqual(['\u{10FFFF}x'])
  expect(namesOf(await list({ prefix: '_' }))).toEqual([])
})

it('gives 50 by default, none for first: 0, and no cursors for an empty page', async () => {
  const names = Array.from({ length: 52 }, (_, index) => `n${String(index).padStart(2, '0')}`)
  const { list } = await serviceWith(names)
  const page = await list()
  expect(namesOf(page)).toEqual(names.slice(0, 50))
  expect(page.pageInfo.hasNextPage).toBe(true)
  const empty = await list({ prefix: 'zz' })
  expect(empty).toEqual({
    nodes: [],
    edges: [],
    pageInfo: { startCursor: null, endCursor: null, hasNextPage: false, hasPreviousPage: false },
  })
  expect(namesOf(await list({ first: 0 }))).toEqual([])
})

it('refuses what it would otherwise cut short', async () => {
  const { refusal } = await startService()
  expect(await refusal(LIST, { first: 501 })).toEqual({
    code: 'BAD_USER_INPUT',
    argument: 'first',
    limit: 500,
  })
  expect(await refusal(LIST, { last: 501 })).toEqual({ code: 'BAD_USER_INPUT', argument: 'last', limit: 500 })
  expect(await refusal(LIST, { first: -1 })).toEqual({ code: 'BAD_USER_INPUT', argument: 'first', limit: 0 })
  expect(await refusal(LIST, { first: 1, last: 1 })).toEqual({ code: 'BAD_USER_INPUT', argument: 'last' })
  expect(await refusal(LIST, { after: 'no cursor!' })).toEqual({ code: 'BAD_USER_INPUT', argument: 'after' })
  expect(await refusal(LIST, { prefix: 'a\nb' })).toEqual({ code: 'BAD_USER_INPUT', argument: 'prefix' })
})
