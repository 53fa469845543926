import { expect, it } from 'vitest'
import { CLASSES } from '../../src/mysql/errors.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { hold } from '../support/database/hold.ts'
import { type Delivery, farAway, startProxy } from '../support/database/proxy.ts'
import { collectStatements } from '../support/database/statements.ts'
import { sums } from '../support/database/totals.ts'
import { stopClock, turnedClock, withPeriodValues } from '../support/model/periods.ts'
import { runSize } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'

stopClock()

const IN_ONE_TRIP = /^start transaction;[\s\S]*group_concat[\s\S]*;\ncommit$/
const FIRST_OF_TWO = /^start transaction;(?![\s\S]*group_concat)/
const LOOK = /update fence set epoch/
const NEW_SESSION = /^set session\s+sql_mode/

const ER_KILL_DENIED = 1095
const HOUR_MS = 3_600_000
const [a, b, c] = ['a', 'b', 'c'].map((name) => ({ namespace: 'n', name })) as [Key, Key, Key]
type Key = { namespace: string; name: string }

/** Three counters at 0 that this process has changed, far away. `strike`: the fates of the next such statements. */
async function farCounters(options: Parameters<typeof openTestNth>[1] = {}) {
  const due: [RegExp, Delivery][] = []
  let sessions = 0
  let isOneTrip = false
  const database = await freshDatabase()
  const target = await farAway(database, (statement) => {
    if (NEW_SESSION.test(statement)) sessions += 1
    isOneTrip ||= IN_ONE_TRIP.test(statement)
    const index = due.findIndex(([pattern]) => pattern.test(statement))
    return index < 0 ? 'passes' : (due.splice(index, 1)[0]?.[1] ?? 'passes')
  })
  const { counters, faults } = openTestNth(target, options)
  for (const key of [a, b, c]) await counters.reset(key, 0)
  // A busy machine may take longer to find that it is far.
  await expect.poll(() => counters.incrementBy(c, 0).then(() => isOneTrip)).toBe(true)
  return {
    counters,
    database,
    faults,
    strike: (...strokes: [RegExp, Delivery][]) => void due.push(...strokes),
    due,
    sessions: () => sessions,
  }
}

it('changes counters in one trip with COMMIT, and returns values, revisions and period totals', async () => {
  const { counters, database } = await farCounters()
  const withBoth = { ...withPeriodValues, withRevision: true }
  const statements = collectStatements()
  const changes = await Promise.all([
    counters.incrementBy(b, 2, withBoth),
    counters.incrementBy(a, 5),
    counters.incrementBy(b, -3),
    counters.incrementBy(c, 2, withPeriodValues),
    counters.incrementBy(b, 0, withBoth),
  ])
  expect(statements).toEqual([expect.stringMatching(IN_ONE_TRIP)])
  expect(changes.map(({ value, previousValue }) => [previousValue, value])).toEqual([
    [0, 2],
    [0, 5],
    [2, -1],
    [0, 2],
    [-1, -1],
  ])
  expect(changes.map(({ valuesIn }) => valuesIn?.MONTH)).toEqual([2, 5, -1, 2, -1])
  expect((changes[4]?.revision ?? 0) - (changes[0]?.revision ?? 0)).toBe(1)
  const { revision } = await counters.incrementBy(b, 1, withBoth)
  expect((revision ?? 0) - (changes[4]?.revision ?? 0)).toBe(1)
  expect(await sums(database)).toEqual(Array(4).fill(7))
})

it('takes two round trips if something must be decided between them', async () => {
  const clock = turnedClock('2027-01-31T22:59:59.999Z')
  const { counters } = await farCounters(clock)
  await counters.define(c, { maxValue: 10 })
  await counters.incrementBy(c, 1)
  const statements = collectStatements()
  const trips = async (work: () => Promise<unknown>) => {
    statements.length = 0
    await work()
    return statements.map((text) => (IN_ONE_TRIP.test(text) ? 'one' : FIRST_OF_TWO.test(text) ? 'two' : '-'))
  }
  expect(await trips(() => counters.incrementBy(c, 1))).toEqual(['two', '-'])
  expect(await trips(() => counters.incrementBy(a, Number.MAX_SAFE_INTEGER))).toEqual(['two', '-'])
  // Found out by the statement: there is no room for a larger value.
  expect(await trips(() => counters.incrementBy(a, -1))).toEqual(['one', '-', 'two', '-', '-'])
  await counters.reset(b, Number.MAX_SAFE_INTEGER)
  await expect(counters.incrementBy(b, 1)).rejects.toMatchObject({ code: 'OUT_OF_RANGE' })
  await counters.reset(b, 0)
  clock.at += HOUR_MS
  expect(await trips(() => counters.incrementBy(b, 1))).toEqual(['two', '-', '-'])
  expect(await trips(() => counters.incrementBy(b, -1))).toEqual(['one'])
})

it('takes one trip or two as the database is far or near at that time, not when it was connected to', {
  tags: 'slow',
}, async () => {
  let delayMs = 5
  const proxy = startProxy(
    await freshDatabase(),
    () => 'passes',
    () => delayMs,
  )
  const { counters } = openTestNth(await proxy)
  await counters.reset(a, 0)
  const statements = collectStatements()
  const isOneTrip = async () => {
    statements.length = 0
    await counters.incrementBy(a, 1)
    return statements.some((text) => IN_ONE_TRIP.test(text))
  }
  for (const isFar of [true, false, true, false]) {
    delayMs = isFar ? 5 : 0
    await expect.poll(isOneTrip).toBe(isFar)
  }
})

it('finds that another process has redefined or deleted a counter, which keeps no periods', async () => {
  const { counters, database } = await farCounters()
  const other = openTestNth(database).counters
  await other.define(a, { periods: [] })
  for (const value of [1, 2]) expect(await counters.incrementBy(a, 1)).toMatchObject({ value })
  const statements = collectStatements()
  await other.define(a, { maxValue: 3 })
  const changes = [counters.incrementBy(a, 1), counters.incrementBy(a, 1)]
  const settled = await Promise.allSettled(changes)
  expect(settled).toMatchObject([{ value: { value: 3 } }, { reason: { code: 'LIMIT_REACHED' } }])
  expect(statements.filter((text) => IN_ONE_TRIP.test(text))).toHaveLength(1)
  await other.delete(a)
  expect(await counters.incrementBy(a, 5)).toMatchObject({ previousValue: 0, value: 5 })
})

it.each<[string, [RegExp, Delivery][]]>([
  ['its statements', [[IN_ONE_TRIP, 'is cut off']]],
  ['the answer', [[IN_ONE_TRIP, 'stays unanswered']]],
  [
    'the answer, and then the look',
    [
      [IN_ONE_TRIP, 'stays unanswered'],
      [LOOK, 'is cut off'],
    ],
  ],
  [
    'the answer, then the look, then the next connection',
    [
      [IN_ONE_TRIP, 'stays unanswered'],
      [LOOK, 'stays unanswered'],
      [NEW_SESSION, 'is cut off'],
    ],
  ],
])('counts once, and returns the number, when the connection is cut at %s', async (_, strokes) => {
  const { counters, database, strike, due, faults } = await farCounters()
  strike(...strokes)
  const changes = await Promise.all([
    counters.incrementBy(a, 1),
    counters.incrementBy(b, 2, withPeriodValues),
  ])
  expect(changes).toMatchObject([{ value: 1 }, { value: 2, valuesIn: { HOUR: 2, DAY: 2, MONTH: 2 } }])
  expect(due).toEqual([])
  expect(await sums(database)).toEqual([3, 3, 3, 3])
  expect(faults).toEqual([])
})

it('does not mistake what the previous flush has applied for a flush that was cut off on its way', async () => {
  const { counters, database, strike, due } = await farCounters()
  expect(await counters.incrementBy(a, 1)).toMatchObject({ value: 1 })
  strike([IN_ONE_TRIP, 'is cut off'])
  expect(await counters.incrementBy(a, 1)).toMatchObject({ value: 2 })
  expect(due).toEqual([])
  expect(await sums(database)).toEqual([2, 2, 2, 2])
})

it.each([
  ['before it is sent again', 1],
  ['after it was sent again, and committed', 2],
])('does not count what arrives after the look that found nothing, %s', async (_, arrivesBefore) => {
  const { counters, database, strike, due } = await farCounters()
  // Else the old connection would be ended.
  strike([IN_ONE_TRIP, { arrivesBefore }], [/^kill /, { errno: ER_KILL_DENIED }])
  expect(await counters.incrementBy(a, 1)).toMatchObject({ previousValue: 0, value: 1 })
  expect(await counters.incrementBy(a, 1)).toMatchObject({ previousValue: 1, value: 2 })
  // Nth sends no `kill` to a server that has just started.
  expect(due.map(([pattern]) => pattern)).not.toContain(IN_ONE_TRIP)
  expect(await sums(database)).toEqual([2, 2, 2, 2])
})

const STEP = Math.ceil(1000 / runSize(16, 60))

it('counts once, and returns the number, wherever in the answer the connection is cut', {
  tags: 'random',
}, async () => {
  const { counters, database, strike, sessions } = await farCounters()
  let bytes = 0
  for (let isCut = true; isCut; bytes += STEP) {
    const before = sessions()
    strike([IN_ONE_TRIP, { answeredBytes: bytes }])
    const expected = bytes / STEP + 1
    const changes = await Promise.all([counters.incrementBy(a, 1), counters.incrementBy(b, 2)])
    expect(changes.map(({ value }) => value)).toEqual([expected, 2 * expected])
    isCut = sessions() > before
  }
  expect(bytes).toBeGreaterThan(100)
  expect(await sums(database)).toEqual(Array(4).fill((3 * bytes) / STEP))
})

it('counts once when it is answered with any error of a server', { tags: 'slow' }, async () => {
  const { counters, database, strike } = await farCounters()
  const errors = Object.values(CLASSES).flatMap((numbers) => Object.entries<number>(numbers))
  for (const [index, [name, errno]] of errors.entries()) {
    strike([IN_ONE_TRIP, { errno }])
    expect([name, (await counters.incrementBy(a, 1)).value]).toEqual([name, index + 1])
  }
  expect(await sums(database)).toEqual(Array(4).fill(errors.length))
})

it('looks whether COMMIT took effect when it is answered with an error', async () => {
  let isDue = false
  const database = await freshDatabase()
  const target = await farAway(database, (statement) => {
    if (!isDue || !IN_ONE_TRIP.test(statement)) return 'passes'
    isDue = false
    return { instead: statement.replace(/commit$/, "signal sqlstate '45000'") }
  })
  const { counters } = openTestNth(target)
  await counters.reset(a, 0)
  isDue = true
  const statements = collectStatements()
  expect((await counters.incrementBy(a, 1)).value).toBe(1)
  expect(isDue).toBe(false)
  expect(statements.filter((text) => LOOK.test(text))).toHaveLength(1)
})

it('answers UNAVAILABLE for a change that waits for a row locked by another session', async () => {
  const { counters, database } = await farCounters({ timeoutMs: 3000 })
  const holder = await hold(database, 'a')
  const held = Promise.allSettled([counters.incrementBy(a, 1), counters.incrementBy(a, 1)])
  await expect.poll(() => counters.incrementBy(b, 1).catch(() => undefined)).toMatchObject({ value: 1 })
  const codes = (await held).map((one) => one.status === 'rejected' && one.reason.code)
  expect(codes).toEqual(['UNAVAILABLE', 'UNAVAILABLE'])
  await holder.query('rollback')
  await expect.poll(() => counters.incrementBy(a, 1).catch(() => undefined)).toMatchObject({ value: 1 })
})

it('counts on a table with a trigger', async () => {
  const { counters, database } = await farCounters()
  await query(
    database,
    'create table log (id bigint auto_increment primary key, value bigint)',
    'create trigger logged before update on counter_value for each row insert into log (value) values (new.value)',
  )
  for (const value of upTo(5)) expect(await counters.incrementBy(a, 1)).toMatchObject({ value })
  const changes = await Promise.all([counters.incrementBy(a, 1), counters.incrementBy(b, 1)])
  expect(changes.map(({ value }) => value)).toEqual([6, 1])
})
