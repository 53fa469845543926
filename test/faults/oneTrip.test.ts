import { describe, expect, it } from 'vitest'
import { CLASSES, ER } from '../../src/mysql/errors.ts'
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

const IN_ONE_STATEMENT = /^update fence straight_join counter_value/
const IN_ONE_TEXT = /^start transaction;[\s\S]*group_concat[\s\S]*;\ncommit$/
const IN_ONE_TRIP = new RegExp(`${IN_ONE_STATEMENT.source}|${IN_ONE_TEXT.source}`)
const FIRST_OF_TWO = /^start transaction;(?![\s\S]*group_concat)/
const LOOK = /update fence set epoch/
const NEW_SESSION = /^set session\s+sql_mode/

const ER_KILL_DENIED = 1095
const HOUR_MS = 3_600_000
const [a, b, c] = ['a', 'b', 'c'].map((name) => ({ namespace: 'n', name })) as [Key, Key, Key]
type Key = { namespace: string; name: string }

/** How many counters a flush changes. */
const FORMS = [
  ['one statement', 1],
  ['one text', 2],
] as const

/** Three counters at 0 that this process has changed, far away. `strike`: the fates of the next such statements. */
async function farCounters(options: Parameters<typeof openTestNth>[1] = {}) {
  const due: [RegExp, Delivery][] = []
  let sessions = 0
  let isFar = false
  const database = await freshDatabase()
  const target = await farAway(database, (statement) => {
    if (NEW_SESSION.test(statement)) sessions += 1
    isFar ||= IN_ONE_TEXT.test(statement)
    const index = due.findIndex(([pattern]) => pattern.test(statement))
    return index < 0 ? 'passes' : (due.splice(index, 1)[0]?.[1] ?? 'passes')
  })
  const { counters, faults } = openTestNth(target, options)
  for (const key of [a, b, c]) await counters.reset(key, 0)
  /** Adds to so many counters at once. Returns their values. */
  const addEach = async (count: number, delta = 1) => {
    const changes = await Promise.all([a, b].slice(0, count).map((key) => counters.incrementBy(key, delta)))
    return changes.map(({ value }) => value)
  }
  // A busy machine may take longer to find that it is far.
  await expect.poll(() => addEach(2, 0).then(() => isFar)).toBe(true)
  return {
    counters,
    addEach,
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
  expect(statements).toEqual([expect.stringMatching(IN_ONE_TEXT)])
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
  expect(await trips(() => counters.incrementBy(a, -1))).toEqual(['one', 'two', '-', '-'])
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
  for (const key of [a, b]) await counters.reset(key, 0)
  const statements = collectStatements()
  const isOneTrip = async () => {
    statements.length = 0
    await Promise.all([a, b].map((key) => counters.incrementBy(key, 1)))
    return statements.some((text) => IN_ONE_TEXT.test(text))
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

const CUTS: [string, [RegExp, Delivery][]][] = [
  ['what was sent', [[IN_ONE_TRIP, 'is cut off']]],
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
]

describe.each(FORMS)('with %s', (_, count) => {
  const all = (value: number) => Array(count).fill(value)
  const sumsOf = (value: number) => Array(4).fill(count * value)

  it.each(CUTS)(
    'counts once, and returns the number, when the connection is cut at %s',
    async (_, strokes) => {
      const { addEach, database, strike, due, faults } = await farCounters()
      expect(await addEach(count, 3)).toEqual(all(3))
      strike(...strokes)
      expect(await addEach(count, 2)).toEqual(all(5))
      expect(due).toEqual([])
      expect(await sums(database)).toEqual(sumsOf(5))
      expect(faults).toEqual([])
    },
  )

  it('does not mistake what the previous flush has applied for a flush that was cut off on its way', async () => {
    const { addEach, database, strike, due } = await farCounters()
    expect(await addEach(count)).toEqual(all(1))
    strike([IN_ONE_TRIP, 'is cut off'])
    expect(await addEach(count)).toEqual(all(2))
    expect(due).toEqual([])
    expect(await sums(database)).toEqual(sumsOf(2))
  })

  it.each([
    ['before it is sent again', 1],
    ['after it was sent again, and committed', 2],
  ])('does not count what arrives after the look that found nothing, %s', async (_, arrivesBefore) => {
    const { addEach, database, strike, due } = await farCounters()
    // Else the old connection would be ended.
    strike([IN_ONE_TRIP, { arrivesBefore }], [/^kill /, { errno: ER_KILL_DENIED }])
    expect(await addEach(count)).toEqual(all(1))
    expect(await addEach(count)).toEqual(all(2))
    // Nth sends no `kill` to a server that has just started.
    expect(due.map(([pattern]) => pattern)).not.toContain(IN_ONE_TRIP)
    expect(await sums(database)).toEqual(sumsOf(2))
  })

  it('counts once, and returns the number, wherever in the answer the connection is cut', {
    tags: 'random',
  }, async () => {
    const { addEach, database, strike, sessions } = await farCounters()
    const step = Math.ceil((count === 1 ? 100 : 1000) / runSize(16, 60))
    let bytes = 0
    for (let isCut = true; isCut; bytes += step) {
      const before = sessions()
      strike([IN_ONE_TRIP, { answeredBytes: bytes }])
      expect(await addEach(count)).toEqual(all(bytes / step + 1))
      isCut = sessions() > before
    }
    expect(bytes).toBeGreaterThan(count === 1 ? 7 : 100)
    expect(await sums(database)).toEqual(sumsOf(bytes / step))
  })

  it('counts once when it is answered with any error of a server', { tags: 'slow' }, async () => {
    const { addEach, database, strike } = await farCounters()
    const errors = Object.values(CLASSES).flatMap((numbers) => Object.entries<number>(numbers))
    for (const [index, [name, errno]] of errors.entries()) {
      strike([IN_ONE_TRIP, { errno }])
      expect([name, await addEach(count)]).toEqual([name, all(index + 1)])
    }
    expect(await sums(database)).toEqual(sumsOf(errors.length))
  })

  it('answers UNAVAILABLE for a change that waits for a row locked by another session', async () => {
    const { addEach, counters, database } = await farCounters({ timeoutMs: 4000 })
    const holder = await hold(database, 'a')
    const held = Promise.allSettled([addEach(count), counters.incrementBy(a, 1)])
    await expect.poll(() => counters.incrementBy(c, 1).catch(() => undefined)).toMatchObject({ value: 1 })
    const codes = (await held).map((one) => one.status === 'rejected' && one.reason.code)
    expect(codes).toEqual(['UNAVAILABLE', 'UNAVAILABLE'])
    await holder.query('rollback')
    await expect.poll(() => counters.incrementBy(a, 1).catch(() => undefined)).toMatchObject({ value: 1 })
  })

  it.each(['before', 'after'])('counts on a table with a trigger %s each change', async (time) => {
    const { addEach, database } = await farCounters()
    await query(
      database,
      'create table log (id bigint auto_increment primary key, value bigint)',
      `create trigger logged ${time} update on counter_value for each row insert into log (value) values (new.value)`,
    )
    for (const value of upTo(5)) expect(await addEach(count)).toEqual(all(value))
    expect(await sums(database)).toEqual(sumsOf(5))
  })
})

it('takes two trips when a deadline may pass while it waits for a lock, and so can answer UNAVAILABLE', async () => {
  const database = await freshDatabase()
  const { counters } = openTestNth(database, { timeoutMs: 1000 })
  await counters.reset(a, 0)
  const holder = await hold(database, 'a')
  await expect(counters.incrementBy(a, 1)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  await holder.query('rollback')
})

it.each<Delivery>([
  'is cut off',
  'stays unanswered',
  { errno: ER.MAX_PREPARED_STMT_COUNT_REACHED },
  { errno: ER.UNSUPPORTED_PS },
  { errno: ER.OPTION_PREVENTS_STATEMENT },
])('counts once when the preparing of its statement %o', async (delivery) => {
  const due = [delivery]
  const database = await freshDatabase()
  const target = await startProxy(database, (statement) =>
    statement.startsWith('prepare ') ? (due.pop() ?? 'passes') : 'passes',
  )
  const { counters, faults } = openTestNth(target)
  await counters.reset(a, 0)
  for (const value of upTo(3)) expect(await counters.incrementBy(a, 1)).toMatchObject({ value })
  expect([due, faults]).toEqual([[], []])
  expect(await sums(database)).toEqual(Array(4).fill(3))
})

it('prepares one statement for all counters, and locks no other row', async () => {
  const prepared: string[] = []
  const database = await freshDatabase()
  const target = await startProxy(database, (statement) => {
    if (statement.startsWith('prepare ')) prepared.push(statement)
    return 'passes'
  })
  const { counters } = openTestNth(target)
  for (const key of [a, b, c]) await counters.reset(key, 10)
  await hold(database, 'b')
  const statements = collectStatements()
  for (const value of [11, 12]) expect(await counters.incrementBy(a, 1)).toMatchObject({ value })
  for (const value of [3, -4]) expect(await counters.incrementBy(c, -7)).toMatchObject({ value })
  expect(statements).toEqual(Array(4).fill(expect.stringMatching(IN_ONE_STATEMENT)))
  expect(prepared).toHaveLength(1)
})

const ERRORS = [
  ER.LOCK_DEADLOCK,
  ER.LOCK_WAIT_TIMEOUT,
  ER.OPTION_PREVENTS_STATEMENT,
  ER.NEW_ABORTING_CONNECTION,
].map((errno) => ({ errno }))

it.each<Delivery>([...ERRORS, { instead: 'select null as found' }])(
  'counts once when the value before is 0, and its reading is answered with %o',
  async (delivery) => {
    const { addEach, database, strike, due } = await farCounters()
    strike([/^select found from fence/, delivery])
    expect(await addEach(1)).toEqual([1])
    expect(due).toEqual([])
    expect(await sums(database)).toEqual(Array(4).fill(1))
  },
)

it('looks whether COMMIT took effect when it is answered with an error', async () => {
  let isDue = false
  const database = await freshDatabase()
  const target = await farAway(database, (statement) => {
    if (!isDue || !IN_ONE_TEXT.test(statement)) return 'passes'
    isDue = false
    return { instead: statement.replace(/commit$/, "signal sqlstate '45000'") }
  })
  const { counters } = openTestNth(target)
  for (const key of [a, b]) await counters.reset(key, 0)
  isDue = true
  const statements = collectStatements()
  const changes = () => Promise.all([a, b].map((key) => counters.incrementBy(key, 1)))
  await expect.poll(() => changes().then(() => isDue)).toBe(false)
  expect(statements.filter((text) => LOOK.test(text))).toHaveLength(1)
  const [after] = await counters.readMany([{ namespace: 'n', name: 'a' }])
  expect(await sums(database)).toEqual(Array(4).fill(2 * (after?.value ?? 0)))
})
