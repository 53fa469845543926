import { describe, expect, it } from 'vitest'
import { freshDatabase } from '../support/database/database.ts'
import { hold } from '../support/database/hold.ts'
import { startProxy, TEXTS } from '../support/database/proxy.ts'
import { collectStatements } from '../support/database/statements.ts'
import { sums } from '../support/database/totals.ts'
import { stopClock, turnedClock } from '../support/model/periods.ts'
import { openTestNth } from '../support/server/nth.ts'

stopClock()

const HOUR_MS = 3_600_000
type Counters = ReturnType<typeof openTestNth>['counters']
type Key = { namespace: string; name: string }
const keys = ['a', 'b', 'c'].map((name) => ({ namespace: 'n', name })) as [Key, Key, Key]
const [a, b, c] = keys

/** Three counters at 0, whose rows this process knows. */
async function threeCounters(options: Parameters<typeof openTestNth>[1] = {}) {
  const database = await freshDatabase()
  const { counters } = openTestNth(database, options)
  for (const key of keys) await counters.reset(key, 0)
  return { counters, database, other: openTestNth(database, options).counters }
}

describe('the round trips of a flush', () => {
  it('are one for an addition, and two if something must be decided between them', async () => {
    const clock = turnedClock('2027-01-31T22:59:59.999Z')
    const { counters } = await threeCounters(clock)
    await counters.define(c, { maxValue: 10 })
    for (const key of [a, c]) await counters.incrementBy(key, 1)
    const statements = collectStatements()
    const trips = async (key: Key, delta: number) => {
      statements.length = 0
      await counters.incrementBy(key, delta)
      return statements.length
    }
    expect(await trips(a, -1)).toBe(1)
    expect(await trips(c, 1)).toBe(2)
    expect(await trips(a, Number.MAX_SAFE_INTEGER)).toBe(2)
    // Found out by the statement: there is no room for a larger value. Then the totals are read.
    expect(await trips(a, -1)).toBe(4)
    await counters.reset(b, Number.MAX_SAFE_INTEGER)
    await expect(counters.incrementBy(b, 1)).rejects.toMatchObject({ code: 'OUT_OF_RANGE' })
    await counters.reset(b, 0)
    clock.at += HOUR_MS
    expect(await trips(b, 1)).toBe(3)
    expect(await trips(b, -1)).toBe(1)
  })

  it('are one where another process has redefined the counter, which keeps no periods, and then two', async () => {
    const { counters, other } = await threeCounters()
    await other.define(a, { periods: [] })
    for (const value of [1, 2]) expect(await counters.incrementBy(a, 1)).toMatchObject({ value })
    const statements = collectStatements()
    await other.define(a, { maxValue: 3 })
    const changes = [counters.incrementBy(a, 1), counters.incrementBy(a, 1)]
    const settled = await Promise.allSettled(changes)
    expect(settled).toMatchObject([{ value: { value: 3 } }, { reason: { code: 'LIMIT_REACHED' } }])
    expect(statements.filter((text) => TEXTS.addsAndCommits.test(text))).toHaveLength(1)
    await other.delete(a)
    expect(await counters.incrementBy(a, 5)).toMatchObject({ previousValue: 0, value: 5 })
  })

  it('are one with the same prepared statement for all counters, which locks no other row', async () => {
    const prepared: string[] = []
    const database = await freshDatabase()
    const target = await startProxy(database, (statement) => {
      if (statement.startsWith('prepare ')) prepared.push(statement)
      return 'passes'
    })
    const { counters } = openTestNth(target)
    for (const key of keys) await counters.reset(key, 10)
    await hold(database, 'b')
    const statements = collectStatements()
    for (const value of [11, 12]) expect(await counters.incrementBy(a, 1)).toMatchObject({ value })
    for (const value of [3, -4]) expect(await counters.incrementBy(c, -7)).toMatchObject({ value })
    expect(statements).toHaveLength(4)
    expect(prepared).toHaveLength(1)
  })

  it('are two where a deadline may pass while it waits for a lock, after which nothing is counted', async () => {
    const cases = [500, 3500].map(async (timeoutMs) => {
      const { counters, database } = await threeCounters({ timeoutMs })
      const holder = await hold(database, 'a')
      const held = [counters.incrementBy(a, 1), counters.incrementBy(a, 1)]
      const settled = Promise.allSettled(held)
      // They are in a flush of their own.
      await new Promise(setImmediate)
      await expect.poll(() => counters.incrementBy(c, 1).catch(() => undefined)).toMatchObject({ value: 1 })
      expect(await settled).toMatchObject([
        { reason: { code: 'UNAVAILABLE' } },
        { reason: { code: 'UNAVAILABLE' } },
      ])
      await holder.query('rollback')
      await expect.poll(() => counters.incrementBy(a, 1).catch(() => undefined)).toMatchObject({ value: 1 })
    })
    await Promise.all(cases)
  })
})

describe('additions to several counters by one statement', () => {
  /** Adds different numbers to three counters at once. Returns their values. */
  async function addToAll(counters: Counters): Promise<number[]> {
    const changes = await Promise.all(keys.map((key, index) => counters.incrementBy(key, index + 1)))
    return changes.map(({ value }) => value)
  }

  it.each<[string, (key: Key, other: Counters) => Promise<unknown>]>([
    ['has a bound now', (key, other) => other.define(key, { maxValue: 3, overflow: 'SATURATE' })],
    [
      'keeps a period now',
      (key, other) => other.define(key, { periods: [{ period: 'DAY', keepDays: null }] }),
    ],
    ['has slots now', (key, other) => other.define(key, { slots: 3 })],
    ['was deleted', (key, other) => other.delete(key).then(() => other.incrementBy(key, 2))],
    ['has hardly any room', (key, other) => other.reset(key, Number.MAX_SAFE_INTEGER - 2)],
  ])('are each made once if one of the counters %s', async (_, change) => {
    const { counters, database, other } = await threeCounters()
    // Without periods, only the version shows a new definition.
    for (const key of keys) await counters.define(key, { periods: [] })
    expect(await addToAll(counters)).toEqual([1, 2, 3])
    await change(b, other)
    const { value, definition } = await other.read(b)
    const expected = [2, definition?.maxValue ?? value + 2, 6]
    expect(await addToAll(counters)).toEqual(expected)
    const states = await openTestNth(database).counters.readMany(keys)
    expect(states.map((state) => state.value)).toEqual(expected)
  })

  it('open the periods of those that another process has not changed in this hour', async () => {
    const clock = turnedClock('2027-01-31T21:30:00Z')
    const { counters, database, other } = await threeCounters(clock)
    const statements = collectStatements()
    expect(await addToAll(counters)).toEqual([1, 2, 3])
    expect(statements).toHaveLength(2)
    clock.at += HOUR_MS
    await other.incrementBy(b, 1)
    statements.length = 0
    expect(await addToAll(counters)).toEqual([2, 5, 6])
    // The other rows are read again before their periods are opened.
    expect(statements).toHaveLength(3)
    const totals = keys.map(async (key) => other.valueIn(await other.read(key), 'HOUR'))
    expect(await Promise.all(totals)).toEqual([1, 3, 3])
    expect(await sums(database)).toEqual(Array(4).fill(13))
  })
})
