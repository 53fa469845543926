import { expect, it } from 'vitest'
import { CLASSES } from '../../src/mysql/errors.ts'
import { freshDatabase } from '../support/database/database.ts'
import { type Delivery, startProxy } from '../support/database/proxy.ts'
import { collectStatements } from '../support/database/statements.ts'
import { sums } from '../support/database/totals.ts'
import { stopClock, turnedClock } from '../support/model/periods.ts'
import { openTestNth } from '../support/server/nth.ts'

/* Additions to several counters by one statement, which collects their values before. */

stopClock()

const COLLECTING = /^start transaction;[^;]*;\nset @found/
const HOUR_MS = 3_600_000
type Counters = ReturnType<typeof openTestNth>['counters']
type Key = { namespace: string; name: string }
const keys = ['a', 'b', 'c'].map((name) => ({ namespace: 'n', name })) as [Key, Key, Key]
const [a, b, c] = keys

/** Adds different numbers to three counters at once. Returns their values. */
async function addToAll(counters: Counters): Promise<number[]> {
  const changes = await Promise.all(keys.map((key, index) => counters.incrementBy(key, index + 1)))
  return changes.map(({ value }) => value)
}

/** Three counters at 0. `strike`: the fates of the next such statements. */
async function threeCounters(options: Parameters<typeof openTestNth>[1] = {}) {
  const due: [RegExp, Delivery][] = []
  const database = await freshDatabase()
  const target = await startProxy(database, (statement) => {
    const index = due.findIndex(([pattern]) => pattern.test(statement))
    return index < 0 ? 'passes' : (due.splice(index, 1)[0]?.[1] ?? 'passes')
  })
  const { counters, faults } = openTestNth(target, options)
  for (const key of keys) await counters.reset(key, 0)
  return { counters, database, faults, due, strike: (...strokes: typeof due) => void due.push(...strokes) }
}

it.each<[string, (key: Key, other: Counters) => Promise<unknown>]>([
  ['has a bound now', (key, other) => other.define(key, { maxValue: 3, overflow: 'SATURATE' })],
  ['keeps a period now', (key, other) => other.define(key, { periods: [{ period: 'DAY', keepDays: null }] })],
  ['has slots now', (key, other) => other.define(key, { slots: 3 })],
  ['was deleted', (key, other) => other.delete(key).then(() => other.incrementBy(key, 2))],
  ['has hardly any room', (key, other) => other.reset(key, Number.MAX_SAFE_INTEGER - 2)],
])('adds to each of several counters once if one of them %s', async (_, change) => {
  const { counters, database } = await threeCounters()
  // Without periods, only the version shows a new definition.
  for (const key of keys) await counters.define(key, { periods: [] })
  expect(await addToAll(counters)).toEqual([1, 2, 3])
  const other = openTestNth(database).counters
  await change(b, other)
  const { value, definition } = await other.read(b)
  const expected = [2, definition?.maxValue ?? value + 2, 6]
  const statements = collectStatements()
  expect(await addToAll(counters)).toEqual(expected)
  expect(statements[0]).toMatch(COLLECTING)
  const states = await openTestNth(database).counters.readMany(keys)
  expect(states.map((state) => state.value)).toEqual(expected)
})

it('opens the periods of those that another process has not changed in this hour', async () => {
  const clock = turnedClock('2027-01-31T21:30:00Z')
  const { counters, database } = await threeCounters(clock)
  expect(await addToAll(counters)).toEqual([1, 2, 3])
  clock.at += HOUR_MS
  const other = openTestNth(database, clock).counters
  await other.incrementBy(b, 1)
  const statements = collectStatements()
  expect(await addToAll(counters)).toEqual([2, 5, 6])
  // The other rows are read again before their periods are opened.
  expect(statements).toHaveLength(3)
  for (const [key, total] of [
    [a, 1],
    [b, 3],
    [c, 3],
  ] as const)
    expect(await other.valueIn(await other.read(key), 'HOUR')).toBe(total)
  expect(await sums(database)).toEqual(Array(4).fill(13))
})

it.each<[string, [RegExp, Delivery][]]>([
  ['what was sent', [[COLLECTING, 'is cut off']]],
  ['its answer', [[COLLECTING, 'stays unanswered']]],
  ['half of its answer', [[COLLECTING, { answeredBytes: 40 }]]],
  ['COMMIT', [[/^commit$/, 'is cut off']]],
  ['the answer to COMMIT', [[/^commit$/, 'stays unanswered']]],
])('adds once, and returns the numbers, when the connection is cut at %s', async (_, strokes) => {
  const { counters, database, strike, due, faults } = await threeCounters()
  expect(await addToAll(counters)).toEqual([1, 2, 3])
  strike(...strokes)
  expect(await addToAll(counters)).toEqual([2, 4, 6])
  expect(await addToAll(counters)).toEqual([3, 6, 9])
  expect([due, faults]).toEqual([[], []])
  expect(await sums(database)).toEqual(Array(4).fill(18))
})

it('adds once when it is answered with any error of a server', { tags: 'slow' }, async () => {
  const { counters, database, strike } = await threeCounters()
  const errors = Object.values(CLASSES).flatMap((numbers) => Object.entries<number>(numbers))
  for (const [index, [name, errno]] of errors.entries()) {
    strike([COLLECTING, { errno }])
    const n = index + 1
    expect([name, await addToAll(counters)]).toEqual([name, [n, 2 * n, 3 * n]])
  }
  expect(await sums(database)).toEqual(Array(4).fill(6 * errors.length))
})
