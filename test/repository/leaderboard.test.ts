import fc from 'fast-check'
import { expect, it } from 'vitest'
import { nameCursors } from '../../src/graphql/lists.ts'
import { listLeaderboard } from '../../src/repository/leaderboard.ts'
import { upTo } from '../support/client/client.ts'
import { LIST, listedService, namesOf, ORDERS } from '../support/client/leaderboard.ts'
import { filledUp, freshDatabase, query } from '../support/database/database.ts'
import { readsOf } from '../support/database/rowsRead.ts'
import { openTestNth } from '../support/server/nth.ts'

it('counters(orderBy:): lists the highest, the lowest, and the latest changes, including what was changed just before', async () => {
  const { list, set, ask } = await listedService()
  await set({ silver: 2, gold: 30, bronze: -1 })
  await ask('mutation { increment(name: "elsewhere", namespace: "m") { value } }')
  expect(namesOf(await list({ orderBy: 'VALUE_DESC' }))).toEqual(['gold', 'silver', 'bronze'])
  expect(namesOf(await list({ orderBy: 'VALUE_ASC' }))).toEqual(['bronze', 'silver', 'gold'])
  await set({ silver: 40 })
  const { nodes } = await list({ orderBy: 'VALUE_DESC' })
  expect(nodes).toMatchObject([
    { name: 'silver', value: 42 },
    { name: 'gold', value: 30 },
    { name: 'bronze', value: -1 },
  ])
  expect(namesOf(await list({ orderBy: 'UPDATED_AT_DESC', first: 1 }))).toEqual(['silver'])
})

const RANKED = `query($orderBy: CounterOrder!, $first: Int, $after: String, $last: Int, $before: String) {
  namespace(name: "n") {
    counters(orderBy: $orderBy, first: $first, after: $after, last: $last, before: $before) {
      edges { rank value cursor node { name value } }
    }
  }
}`

it('rank: returns ranks counted from the top, or from a cursor that contains its own rank', async () => {
  const { ask, set } = await listedService()
  await set({ a: 50, b: 40, c: 30, d: 20, e: 10 })
  const page = async (variables: object) => {
    const { namespace } = await ask(RANKED, { orderBy: 'VALUE_DESC', ...variables })
    // What the test asks for.
    const edges = namespace.counters.edges as {
      rank: number | null
      cursor: string
      node: { name: string }
    }[]
    return { ranks: edges.map(({ rank, node }) => [node.name, rank]), edges }
  }
  const top = await page({ first: 2 })
  expect(top.ranks).toEqual([
    ['a', 1],
    ['b', 2],
  ])
  const after = top.edges[1]?.cursor
  const next = await page({ first: 2, after })
  expect(next.ranks).toEqual([
    ['c', 3],
    ['d', 4],
  ])
  expect((await page({ last: 2, before: next.edges[1]?.cursor })).ranks).toEqual([
    ['b', 2],
    ['c', 3],
  ])
  // How many there are isn't known.
  const last = await page({ last: 2 })
  expect(last.ranks).toEqual([
    ['d', null],
    ['e', null],
  ])
  expect((await page({ first: 2, after: last.edges[0]?.cursor })).ranks).toEqual([['e', null]])
  // Two have come before since.
  await set({ d: 100, e: 100 })
  expect((await page({ last: 5, before: top.edges[1]?.cursor })).ranks).toEqual([
    ['d', null],
    ['e', null],
    ['a', 1],
  ])
  expect((await page({ first: 1, orderBy: 'UPDATED_AT_DESC' })).ranks[0]?.[1]).toBe(1)
  expect((await page({ orderBy: 'NAME_ASC', first: 1 })).ranks).toEqual([['a', null]])
})

it("counters(orderBy:): shows each counter's current value beside the value that it is listed by", async () => {
  const target = await freshDatabase()
  const { counters, leaderboard } = openTestNth(target)
  const page = { order: 'VALUE_DESC', limit: 10, fromEnd: false } as const
  for (const slots of [1, 4]) {
    const key = { namespace: 'n', name: `c${slots}` }
    await counters.define(key, { slots })
    for (const _ of upTo(8)) await counters.incrementBy(key, 1)
    await leaderboard.list('n', page)
    // As a change of which the copy doesn't know yet.
    await query(target, 'update counter_value set value = value + 1 where value > 0')
    const [{ n } = { n: 0 }] = await query(
      target,
      'select cast(sum(value) as signed) as n from counter_value',
    )
    const listed = await leaderboard.list('n', page)
    expect(listed.reduce((sum, { value }) => sum + value, 0)).toBe(n)
    expect(listed.find(({ name }) => name === key.name)?.listedValue).toBe(8)
    await counters.delete(key)
  }
})

it('counters(orderBy:): lists what was defined and never changed behind the latest changes', async () => {
  const { list, ask, set } = await listedService()
  await ask('mutation { defineCounter(name: "new", namespace: "n", definition: { maxValue: 5 }) { value } }')
  await set({ old: 1 })
  const { nodes } = await list({ orderBy: 'UPDATED_AT_DESC' })
  expect(nodes).toMatchObject([{ name: 'old' }, { name: 'new', value: 0, updatedAt: null }])
  expect(namesOf(await list({ orderBy: 'VALUE_DESC' }))).toEqual(['old', 'new'])
})

it.each(ORDERS)(
  'counters(orderBy:): pages in the order %s, forward and backward, without missing or repeating any',
  async (orderBy) => {
    const { list, set } = await listedService()
    const sizes = fc.integer({ min: 1, max: 9 })
    await set(Object.fromEntries(upTo(40).map((index) => [`c${index}`, index % 7])))
    await set({ c3: 0, c9: 0 })
    const all = namesOf(await list({ orderBy }))
    expect(new Set(all).size).toBe(40)
    await fc.assert(
      fc.asyncProperty(sizes, async (size) => {
        const forward: string[] = []
        for (let after: string | null = null, isMore = true; isMore; ) {
          const page = await list({ orderBy, first: size, after })
          forward.push(...namesOf(page))
          after = page.pageInfo.endCursor
          isMore = page.pageInfo.hasNextPage
        }
        const backward: string[] = []
        for (let before: string | null = null, isMore = true; isMore; ) {
          const page = await list({ orderBy, last: size, before })
          backward.unshift(...namesOf(page))
          before = page.pageInfo.startCursor
          isMore = page.pageInfo.hasPreviousPage
        }
        expect([forward, backward]).toEqual([all, all])
      }),
      { numRuns: 5 },
    )
  },
)

it('counters(orderBy:): continues from a cursor when values have changed meanwhile, also when its counter is gone', async () => {
  const { list, set, ask } = await listedService()
  await set({ a: 50, b: 40, c: 30, d: 20, e: 10 })
  const { pageInfo } = await list({ orderBy: 'VALUE_DESC', first: 2 })
  await set({ e: 100, c: 5 })
  await ask('mutation { deleteCounter(name: "b", namespace: "n") { value } }')
  const next = await list({ orderBy: 'VALUE_DESC', first: 2, after: pageInfo.endCursor })
  expect(next.nodes).toMatchObject([
    { name: 'c', value: 35 },
    { name: 'd', value: 20 },
  ])
  expect(next.pageInfo.hasNextPage).toBe(false)
  const before = await list({ orderBy: 'VALUE_DESC', last: 5, before: next.pageInfo.startCursor })
  expect(namesOf(before)).toEqual(['e', 'a'])
})

it.each([
  ['a prefix', { prefix: 'a' }, { argument: 'prefix' }],
  ['a cursor of another order', { after: nameCursors.encode('\n<5 1') }, { argument: 'after' }],
  ['a cursor of the list by name', { before: nameCursors.encode('name') }, { argument: 'before' }],
  ['a cursor made up', { after: nameCursors.encode('\n>5') }, { argument: 'after' }],
  ['a cursor of no rank', { after: nameCursors.encode('\n>5 1 0') }, { argument: 'after' }],
  ['a cursor of another rank', { after: nameCursors.encode('\n>5 1 1.5') }, { argument: 'after' }],
  ['a cursor beyond all numbers', { after: nameCursors.encode('\n>1e300 1') }, { argument: 'after' }],
  [
    'a cursor with statements in it',
    { after: nameCursors.encode('\n>5 1; drop table counter') },
    { argument: 'after' },
  ],
  ['first and last', { first: 1, last: 1 }, { argument: 'last' }],
  ['too many', { first: 501 }, { argument: 'first', limit: 500 }],
])('counters(orderBy:): refuses %s', async (_, variables, details) => {
  const { refusal, ask, set } = await listedService()
  await set({ a: 1 })
  expect(await refusal(LIST, { orderBy: 'VALUE_DESC', ...variables })).toEqual({
    code: 'BAD_USER_INPUT',
    ...details,
  })
  expect(await ask('{ counter(name: "a", namespace: "n") { value } }')).toEqual({ counter: { value: 1 } })
})

it('counters(orderBy:): refuses a cursor of values as one by name or by change', async () => {
  const { refusal, list, set } = await listedService()
  await set({ a: 1 })
  const after = (await list({ orderBy: 'VALUE_DESC' })).edges[0].cursor
  const late = ['-1 1', `${Date.UTC(10_000, 0)} 1`].map((place) => nameCursors.encode(`\nt${place}`))
  const ranked = [0, -1, 2 ** 31 - 1, Number.MAX_SAFE_INTEGER].map((rank) =>
    nameCursors.encode(`\n>5 1 ${rank}`),
  )
  for (const [orderBy, cursors] of Object.entries({
    NAME_ASC: [after],
    VALUE_ASC: [after],
    UPDATED_AT_DESC: [after, ...late],
    VALUE_DESC: ranked,
  }))
    for (const after of cursors)
      expect(await refusal(LIST, { orderBy, after })).toEqual({ code: 'BAD_USER_INPUT', argument: 'after' })
})

it('counters(orderBy:): moves what was changed by 0 to the latest changes', async () => {
  const target = await freshDatabase()
  let now = Date.UTC(2026, 2, 1)
  const { counters, leaderboard } = openTestNth(target, { now: () => new Date(now) })
  const page = { order: 'UPDATED_AT_DESC', limit: 10, fromEnd: false } as const
  for (const [name, delta] of Object.entries({ a: 1, b: 1, A: 0 })) {
    now += 1000
    await counters.incrementBy({ namespace: 'n', name: name.toLowerCase() }, delta)
    await leaderboard.list('n', page)
  }
  const listed = await leaderboard.list('n', page)
  expect(listed.map(({ name, updatedAt }) => [name, updatedAt?.getTime()])).toEqual([
    ['a', now],
    ['b', now - 1000],
  ])
})

it.each(ORDERS)(
  'counters(orderBy:): reads no more than a page of 20 000 counters in the order %s, also among many that are the same',
  async (order) => {
    const target = await freshDatabase({ isReused: false })
    const { counters } = openTestNth(target)
    await counters.incrementBy({ namespace: 'n', name: 'first' }, 1)
    await query(
      target,
      ...filledUp(20_000),
      'insert into counter (id, namespace_id, name) select n + 9, 1, cast(n + 9 as char) from filled',
      'drop table filled',
      `insert into counter_value (counter_id, slot, version, value, revision, updated_at)
     select id, 0, 1, greatest(cast(id as signed) - 9999, 0), 1, '2026-01-01' + interval greatest(cast(id as signed) - 9999, 0) second
       from counter where id >= 10`,
      `insert into leaderboard (counter_id, namespace_id, value, updated_at, revision)
     select counter_id, 1, value, updated_at, 1 from counter_value where counter_id >= 10`,
      'analyze table namespace, counter, counter_value, leaderboard',
    )
    const page = { order, limit: 10, fromEnd: false } as const
    for (const id of [3000, 15_000]) {
      const value = Math.max(id - 9999, 0)
      const sortedBy = order === 'UPDATED_AT_DESC' ? Date.UTC(2026, 0, 1) + 1000 * value : value
      for (const place of [{ after: { sortedBy, id } }, { before: { sortedBy, id }, fromEnd: true }]) {
        const reads = await readsOf(target, async (connection) =>
          expect(await listLeaderboard(connection, 'n', { ...page, ...place })).toHaveLength(10),
        )
        expect({ order, place, reads: reads < 200 ? 'few' : reads }).toEqual({ order, place, reads: 'few' })
      }
    }
  },
)
