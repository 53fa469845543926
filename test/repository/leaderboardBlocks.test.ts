// @module-tag random
import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Target } from '../../src/mysql/settings.ts'
import { layOut } from '../../src/repository/leaderboardBlocks.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, openTestDatabase, query } from '../support/database/database.ts'
import { divide, fill, PERIODS, wrongBlocks } from '../support/database/leaderboards.ts'
import { collectStatements } from '../support/database/statements.ts'
import { runSize } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'

const COUNTERS = 15
const LEADERBOARDS = ['n1', 'n2'].flatMap((namespace) =>
  PERIODS.map((periodKey) => ({ namespace, periodKey })),
)
const MAX = Number.MAX_SAFE_INTEGER

it('place, neighbors: returns the place and the neighbors of each counter on each leaderboard, whatever its blocks', async () => {
  const value = fc.oneof(
    { weight: 8, arbitrary: fc.integer({ min: -4, max: 4 }) },
    { weight: 1, arbitrary: fc.constantFrom(-MAX, 1 - MAX, MAX - 1, MAX) },
    { weight: 2, arbitrary: fc.constant(null) },
  )
  const counters = fc.array(fc.tuple(value, value, value), { minLength: COUNTERS, maxLength: COUNTERS })
  const starts = fc.uniqueArray(fc.oneof(fc.integer({ min: -5, max: 5 }), fc.constantFrom(1 - MAX, MAX)), {
    maxLength: 8,
  })
  await fc.assert(
    fc.asyncProperty(counters, counters, starts, fc.nat(6), async (first, second, starts, around) => {
      const target = await freshDatabase()
      await fill(target, [first, second])
      const { leaderboard, counters } = openTestNth(target)
      async function check(): Promise<void> {
        const cases = LEADERBOARDS.flatMap(({ namespace, periodKey }) => {
          const listed = (namespace === 'n1' ? first : second).map((values, index) => ({
            name: `c${index + 1}`,
            index,
            value: values[PERIODS.indexOf(periodKey)] ?? null,
          }))
          return [false, true].map((lowestFirst) => ({ namespace, periodKey, lowestFirst, listed }))
        })
        await Promise.all(
          cases.map(async ({ listed, ...chosen }) => {
            const sign = chosen.lowestFirst ? 1 : -1
            const sorted = listed
              .flatMap((each) => (each.value === null ? [] : { ...each, value: each.value }))
              .toSorted((a, b) => sign * (a.value - b.value) || sign * (a.index - b.index))
            const expectedPlaces = listed.map(({ value }) =>
              value === null ? null : 1 + sorted.findIndex((other) => other.value === value),
            )
            const keys = listed.map(({ name }) => ({ ...chosen, name }))
            const places = await Promise.all(keys.map((key) => leaderboard.place(key)))
            expect({ chosen, places }).toEqual({ chosen, places: expectedPlaces })
            const neighbors = await Promise.all(keys.map((key) => leaderboard.neighbors(key, around, 1)))
            const expectedNeighbors = listed.map(({ name }) => {
              const at = sorted.findIndex((other) => other.name === name)
              return at < 0 ? null : sorted.slice(Math.max(at - around, 0), at + 2).map((other) => other.name)
            })
            expect(neighbors.map((entries) => entries?.map(({ name }) => name) ?? null)).toEqual(
              expectedNeighbors,
            )
            const placed = await Promise.all(
              neighbors.map((entries) => leaderboard.placesOf(entries ?? [], chosen.lowestFirst)),
            )
            expect(placed).toEqual(
              expectedNeighbors.map((names) =>
                (names ?? []).map((name) => expectedPlaces[listed.findIndex((other) => other.name === name)]),
              ),
            )
          }),
        )
      }
      await check()
      await divide(
        target,
        starts.toSorted((a, b) => a - b),
      )
      await check()
      // Its copy counts the change.
      await counters.delete({ namespace: 'n1', name: 'c1' })
      first[0] = [null, null, null]
      await check()
      expect(await wrongBlocks(target)).toEqual([])
    }),
    { numRuns: runSize(5, 60) },
  )
})

it('place: reads many places in one snapshot, with at most 50 selects a statement', async () => {
  const target = await freshDatabase()
  await fill(target, [upTo(300)])
  const { leaderboard } = openTestNth(target)
  const snapshots = collectStatements('consistent snapshot')
  const statements = collectStatements('union all')
  const one = upTo(300).map((index) => ({ name: `c${index}`, periodKey: 0, lowestFirst: false }))
  const others = upTo(120).map((index) => ({ name: 'c1', periodKey: 202600 + index, lowestFirst: true }))
  const keys = [...one, ...others].map((key) => ({ namespace: 'n1', ...key }))
  const places = await Promise.all(keys.map((key) => leaderboard.place(key)))
  expect(places).toEqual([...one.map((_, index) => 300 - index), ...others.map(() => null)])
  expect(snapshots).toHaveLength(1)
  const selects = statements.map((text) => text.split('union all').length)
  expect(Math.max(...selects)).toBe(50)
  // A text of several statements would keep the memory of all until its end.
  expect(statements.filter((text) => text.includes(';'))).toEqual([])
})

it('neighbors: reads the neighbors of many counters, and their places, in one snapshot each', async () => {
  const target = await freshDatabase()
  await fill(target, [upTo(200)])
  const { leaderboard } = openTestNth(target)
  const snapshots = collectStatements('consistent snapshot')
  const statements = collectStatements('union all')
  const keys = upTo(60).map((index) => ({
    namespace: 'n1',
    name: `c${index * 3}`,
    periodKey: 0,
    lowestFirst: true,
  }))
  const neighbors = await Promise.all(keys.map((key) => leaderboard.neighbors(key, 1, 1)))
  expect(snapshots).toHaveLength(1)
  // Those above and those below.
  expect(statements.map((text) => text.split('union all').length)).toEqual([50, 50, 20])
  const places = await Promise.all(neighbors.map((entries) => leaderboard.placesOf(entries ?? [], true)))
  expect(places).toEqual(upTo(60).map((index) => [3 * index - 1, 3 * index, 3 * index + 1]))
  expect(snapshots).toHaveLength(2)
})

/** The sizes of the blocks of n1, and that each has the rows that it counts. */
async function sizesIn(target: Target): Promise<number[]> {
  expect(await wrongBlocks(target)).toEqual([])
  const rows = await query(target, 'select counters from leaderboard_block order by from_value')
  return rows.map(({ counters }) => counters)
}

async function set(nth: ReturnType<typeof openTestNth>, values: Record<string, number>): Promise<void> {
  const changes = Object.entries(values).map(([name, delta]) => ({ name, delta }))
  for (let from = 0; from < changes.length; from += 500)
    await nth.counters.incrementMany('n1', changes.slice(from, from + 500))
  // It copies what was changed.
  await nth.leaderboard.list('n1', { order: 'VALUE_DESC', limit: 1, fromEnd: false })
}

const numbered = (last: number, valueAt: (index: number) => number) =>
  Object.fromEntries(upTo(last).map((index) => [`c${index}`, valueAt(index)]))

it('leaderboard blocks: a new leaderboard is divided as soon as a copy finds that it has doubled, and then each block', async () => {
  const target = await freshDatabase({ isReused: false })
  const nth = openTestNth(target)
  await set(
    nth,
    numbered(2000, (index) => index),
  )
  expect(await sizesIn(target)).toEqual([])
  await set(nth, { d1: 0 })
  expect(await sizesIn(target)).toEqual([1000, 1001])
  await set(nth, Object.fromEntries(upTo(1000).map((index) => [`e${index}`, 2000 + index])))
  // The last block had 1001 rows, and those of c1001 to c2000 are not above 2000.
  expect(await sizesIn(target)).toEqual([1000, 1000, 1001])
  const place = (name: string) =>
    nth.leaderboard.place({ namespace: 'n1', name, periodKey: 0, lowestFirst: false })
  expect(await Promise.all(['e1000', 'c2000', 'c1', 'd1'].map((key) => place(key)))).toEqual([
    1, 1001, 3000, 3001,
  ])
})

it('leaderboard blocks: a value with many counters has a block of its own, which is not split again', async () => {
  const target = await freshDatabase({ isReused: false })
  const nth = openTestNth(target)
  await set(nth, { ...numbered(2500, () => 7), low: 1, high: 9 })
  expect(await sizesIn(target)).toEqual([1, 2500, 1])
  const layouts = collectStatements('as following')
  await set(nth, { new: 7, low: 1, high: 1 })
  expect(await sizesIn(target)).toEqual([1, 2501, 1])
  expect(layouts).toEqual([])
  await set(nth, { next: 7 })
  expect(
    await nth.leaderboard.place({ namespace: 'n1', name: 'next', periodKey: 0, lowestFirst: false }),
  ).toBe(2)
  expect(layouts).toEqual([])
})

it('leaderboard blocks: at most 20 are split after a copy, and more after the next one', async () => {
  const target = await freshDatabase({ isReused: false })
  await fill(target, [upTo(25_000)])
  const nth = openTestNth(target)
  await set(nth, { new: 30_000 })
  expect(await sizesIn(target)).toEqual([...upTo(20).map(() => 1000), 5001])
  await set(nth, { new: 1 })
  expect(await sizesIn(target)).toEqual([...upTo(24).map(() => 1000), 1001])
})

it('leaderboard blocks: nothing changes where none begins any more, or where another process has just split it', async () => {
  const target = await freshDatabase({ isReused: false })
  await fill(target, [upTo(4000)])
  await divide(target, [100, 3000])
  const database = openTestDatabase(target)
  const sizes = await sizesIn(target)
  for (const [from, moreThan] of [
    [50, undefined],
    [3001, undefined],
    [3000, 2000],
  ] as const) {
    const next = await layOut(database, { namespaceId: 1, periodKey: 0 }, from, moreThan)
    expect(next).toBe(undefined)
    expect(await sizesIn(target)).toEqual(sizes)
  }
})

it('leaderboard blocks: counts stay right while several processes split the same blocks', async () => {
  const target = await freshDatabase({ isReused: false })
  await fill(target, [upTo(9000).map((value) => value % 997)])
  const processes = upTo(3).map(() => openTestNth(target))
  await Promise.all(
    processes.map(async (nth, process) => {
      for (const round of upTo(4)) await set(nth, { [`p${process} ${round}`]: 100 * process + round })
    }),
  )
  const sizes = await sizesIn(target)
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(9012)
  expect(Math.max(...sizes)).toBeLessThanOrEqual(2000)
  expect(processes.flatMap(({ faults }) => faults)).toEqual([])
})
