import { expect, it } from 'vitest'
import { subscribe } from '../support/client/events.ts'
import { startProtected } from '../support/client/keys.ts'
import { listedService } from '../support/client/leaderboard.ts'

it('place: is 1 for the highest counter, and shared by equal values', async () => {
  const { ask, set } = await listedService()
  await set({ a: 9, b: 5, c: 5, d: 1 })
  const { counters, none } = await ask(
    `{ counters(names: ["a", "b", "c", "d"], namespace: "n") { place lowest: place(lowestFirst: true) }
       none: counter(name: "e", namespace: "n") { place neighbors { place } } }`,
  )
  expect(counters).toEqual([
    { place: 1, lowest: 4 },
    { place: 2, lowest: 2 },
    { place: 2, lowest: 2 },
    { place: 4, lowest: 1 },
  ])
  expect(none).toEqual({ place: null, neighbors: null })
})

const PAGE = `query($orderBy: CounterOrder!, $first: Int, $after: String, $last: Int, $before: String) {
  namespace(name: "n") {
    counters(orderBy: $orderBy, first: $first, after: $after, last: $last, before: $before) {
      edges { place rank cursor node { name } }
    }
  }
}`

it('edges.place: is right on each page of a list by value, from either end', async () => {
  const { ask, set } = await listedService()
  await set({ a: 9, b: 5, c: 5, d: 5, e: 1, f: 0 })
  const page = async (variables: Record<string, unknown>) =>
    // What the test asks for.
    (await ask(PAGE, variables)).namespace.counters.edges as {
      place: number | null
      rank: number | null
      cursor: string
      node: { name: string }
    }[]
  const places = (edges: { place: number | null; node: { name: string } }[]) =>
    edges.map(({ place, node }) => `${node.name}${place}`).join(' ')
  const first = await page({ orderBy: 'VALUE_DESC', first: 3 })
  expect(places(first)).toBe('a1 d2 c2')
  const second = await page({ orderBy: 'VALUE_DESC', first: 3, after: first.at(-1)?.cursor })
  expect(places(second)).toBe('b2 e5 f6')
  expect(places(await page({ orderBy: 'VALUE_DESC', last: 3 }))).toBe('b2 e5 f6')
  expect(places(await page({ orderBy: 'VALUE_DESC', last: 2, before: second[1]?.cursor }))).toBe('c2 b2')
  expect(places(await page({ orderBy: 'VALUE_ASC', first: 6 }))).toBe('f1 e2 b3 c3 d3 a6')
  expect(places(await page({ orderBy: 'NAME_ASC', first: 1 }))).toBe('anull')
  expect(places(await page({ orderBy: 'UPDATED_AT_DESC', first: 1 }))).toMatch(/^.null$/)
})

it('neighbors: are in the order of the leaderboard, with their places', async () => {
  const { ask, set } = await listedService()
  await set({ a: 9, b: 7, c: 5, d: 5, e: 1, f: 0 })
  const neighbors = async (name: string, args: string) => {
    const { counter } = await ask(
      `{ counter(name: "${name}", namespace: "n") { neighbors${args} { place value node { name } } } }`,
    )
    return counter.neighbors.map(
      ({ place, value, node }: { place: number; value: number; node: { name: string } }) =>
        `${node.name} ${place} ${value}`,
    )
  }
  expect(await neighbors('d', '')).toEqual(['a 1 9', 'b 2 7', 'd 3 5', 'c 3 5', 'e 5 1'])
  expect(await neighbors('d', '(above: 1, below: 0)')).toEqual(['b 2 7', 'd 3 5'])
  expect(await neighbors('a', '(below: 1)')).toEqual(['a 1 9', 'b 2 7'])
  expect(await neighbors('f', '(above: 0, below: 50)')).toEqual(['f 6 0'])
  expect(await neighbors('d', '(lowestFirst: true)')).toEqual(['e 2 1', 'c 3 5', 'd 3 5', 'b 5 7', 'a 6 9'])
})

it('neighbors: have cursors from which a list continues', async () => {
  const { ask, set } = await listedService()
  await set({ a: 9, b: 7, c: 5 })
  const { counter } = await ask(
    '{ counter(name: "a", namespace: "n") { neighbors(below: 1) { rank cursor } } }',
  )
  expect(counter.neighbors[1].rank).toBe(null)
  const { namespace } = await ask(PAGE, { orderBy: 'VALUE_DESC', after: counter.neighbors[1].cursor })
  expect(namespace.counters.edges).toMatchObject([{ place: 3, rank: null, node: { name: 'c' } }])
})

it.each([
  ['{ counter(name: "a") { neighbors(above: 51) { place } } }', 'above', 50],
  ['{ counter(name: "a") { neighbors(below: -1) { place } } }', 'below', 0],
  ['{ counter(name: "a") { place(at: "2026-01-01T00:00:00Z") } }', 'at'],
  ['{ counter(name: "a") { place(period: DAY, at: "2100-01-02T00:00:00Z") } }', 'at'],
  ['{ namespace { counters(period: DAY) { nodes { name } } } }', 'period'],
  [
    'mutation { defineNamespace(definition: { leaderboards: [DAY, DAY] }) { name } }',
    'definition.leaderboards.1',
  ],
])('arguments: are refused in %s', async (document, argument, limit?: number) => {
  const { refusal } = await listedService()
  const details = { code: 'BAD_USER_INPUT', argument, ...(limit !== undefined && { limit }) }
  expect(await refusal(document)).toEqual(details)
})

it.each([
  ['place', 'place'],
  ['neighbors', 'neighbors { value }'],
  ['place', 'namespace { counters(orderBy: VALUE_DESC) { edges { place } } }'],
])('subscriptions: have no `%s`, as a change of another counter sends no event: %s', async (_, selection) => {
  const { url, set } = await listedService()
  await set({ a: 9 })
  const stream = await subscribe(
    url,
    `subscription { counters(names: ["a"], namespace: "n") { value ${selection} } }`,
  )
  const event = await stream.next()
  if (typeof event === 'string') throw new Error(event)
  const { data, errors } = event
  expect(data.counters[0].value).toBe(9)
  expect(errors?.[0]?.extensions.code).toBe('BAD_USER_INPUT')
})

it('place, neighbors: are for callers who may list the namespace', async () => {
  const { as, admin, createKey } = await startProtected()
  await admin.ask('mutation { increment(name: "a", namespace: "n") { value } }')
  const field = 'counter(name: "a", namespace: "n") { place neighbors { place } }'
  const lister = await createKey([{ scopes: ['READ'], namespace: 'n' }])
  expect(await as(lister.secret).ask(`{ ${field} }`)).toEqual({
    counter: { place: 1, neighbors: [{ place: 1 }] },
  })
  const reader = await createKey([{ scopes: ['READ', 'ADD'], namespace: 'n', names: ['a'] }])
  const { data, errors } = await as(reader.secret).send(`{ ${field} }`)
  expect(data).toEqual({ counter: { place: null, neighbors: null } })
  expect(errors?.map(({ extensions }) => extensions.code)).toEqual(['FORBIDDEN', 'FORBIDDEN'])
})
