import { expect, it } from 'vitest'
import { CLASSES, ER } from '../../src/mysql/errors.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { hold } from '../support/database/hold.ts'
import { type Delivery, startProxy } from '../support/database/proxy.ts'
import { collectStatements } from '../support/database/statements.ts'
import { sums } from '../support/database/totals.ts'
import { stopClock, turnedClock } from '../support/model/periods.ts'
import { runSize } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'

stopClock()

const IN_ONE_TRIP = /^update fence straight_join counter_value/
const FIRST_OF_TWO = /^start transaction;/
const LOOK = /update fence set epoch/
const NEW_SESSION = /^set session\s+sql_mode/

const ER_KILL_DENIED = 1095
const HOUR_MS = 3_600_000
const [a, b, c] = ['a', 'b', 'c'].map((name) => ({ namespace: 'n', name })) as [Key, Key, Key]
type Key = { namespace: string; name: string }

/** Three counters at 0 that this process has changed. `strike`: the fates of the next such statements. */
async function countersWith(options: Parameters<typeof openTestNth>[1] = {}) {
  const due: [RegExp, Delivery][] = []
  let sessions = 0
  const database = await freshDatabase()
  const target = await startProxy(database, (statement) => {
    if (NEW_SESSION.test(statement)) sessions += 1
    const index = due.findIndex(([pattern]) => pattern.test(statement))
    return index < 0 ? 'passes' : (due.splice(index, 1)[0]?.[1] ?? 'passes')
  })
  const { counters, faults } = openTestNth(target, options)
  for (const key of [a, b, c]) await counters.reset(key, 0)
  /** Adds to the first one. Returns its value. */
  const add = async (delta = 1) => (await counters.incrementBy(a, delta)).value
  // Its statement is prepared.
  await add(0)
  return {
    counters,
    add,
    database,
    faults,
    strike: (...strokes: [RegExp, Delivery][]) => void due.push(...strokes),
    due,
    sessions: () => sessions,
  }
}

it('takes two round trips if something must be decided between them', async () => {
  const clock = turnedClock('2027-01-31T22:59:59.999Z')
  const { counters } = await countersWith(clock)
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

it('finds that another process has redefined or deleted a counter, which keeps no periods', async () => {
  const { counters, database } = await countersWith()
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

it.each(CUTS)('counts once, and returns the number, when the connection is cut at %s', async (_, strokes) => {
  const { add, database, strike, due, faults } = await countersWith()
  expect(await add(3)).toBe(3)
  strike(...strokes)
  expect(await add(2)).toBe(5)
  expect(due).toEqual([])
  expect(await sums(database)).toEqual(Array(4).fill(5))
  expect(faults).toEqual([])
})

it('does not mistake what the previous flush has applied for a flush that was cut off on its way', async () => {
  const { add, database, strike, due } = await countersWith()
  expect(await add()).toBe(1)
  strike([IN_ONE_TRIP, 'is cut off'])
  expect(await add()).toBe(2)
  expect(due).toEqual([])
  expect(await sums(database)).toEqual(Array(4).fill(2))
})

it.each([
  ['before it is sent again', 1],
  ['after it was sent again, and committed', 2],
])('does not count what arrives after the look that found nothing, %s', async (_, arrivesBefore) => {
  const { add, database, strike, due } = await countersWith()
  // Else the old connection would be ended.
  strike([IN_ONE_TRIP, { arrivesBefore }], [/^kill /, { errno: ER_KILL_DENIED }])
  expect(await add()).toBe(1)
  expect(await add()).toBe(2)
  // Nth sends no `kill` to a server that has just started.
  expect(due.map(([pattern]) => pattern)).not.toContain(IN_ONE_TRIP)
  expect(await sums(database)).toEqual(Array(4).fill(2))
})

it('counts once, and returns the number, wherever in the answer the connection is cut', {
  tags: 'random',
}, async () => {
  const { add, database, strike, sessions } = await countersWith()
  const step = Math.ceil(100 / runSize(16, 60))
  let bytes = 0
  for (let isCut = true; isCut; bytes += step) {
    const before = sessions()
    strike([IN_ONE_TRIP, { answeredBytes: bytes }])
    expect(await add()).toBe(bytes / step + 1)
    isCut = sessions() > before
  }
  expect(bytes).toBeGreaterThan(7)
  expect(await sums(database)).toEqual(Array(4).fill(bytes / step))
})

it('counts once when it is answered with any error of a server', { tags: 'slow' }, async () => {
  const { add, database, strike } = await countersWith()
  const errors = Object.values(CLASSES).flatMap((numbers) => Object.entries<number>(numbers))
  for (const [index, [name, errno]] of errors.entries()) {
    strike([IN_ONE_TRIP, { errno }])
    expect([name, await add()]).toEqual([name, index + 1])
  }
  expect(await sums(database)).toEqual(Array(4).fill(errors.length))
})

it('answers UNAVAILABLE for a change that waits for a row locked by another session', async () => {
  const { add, counters, database } = await countersWith({ timeoutMs: 4000 })
  const holder = await hold(database, 'a')
  const held = Promise.allSettled([add(), counters.incrementBy(a, 1)])
  await expect.poll(() => counters.incrementBy(c, 1).catch(() => undefined)).toMatchObject({ value: 1 })
  const codes = (await held).map((one) => one.status === 'rejected' && one.reason.code)
  expect(codes).toEqual(['UNAVAILABLE', 'UNAVAILABLE'])
  await holder.query('rollback')
  await expect.poll(() => counters.incrementBy(a, 1).catch(() => undefined)).toMatchObject({ value: 1 })
})

it.each(['before', 'after'])('counts on a table with a trigger %s each change', async (time) => {
  const { add, database } = await countersWith()
  await query(
    database,
    'create table log (id bigint auto_increment primary key, value bigint)',
    `create trigger logged ${time} update on counter_value for each row insert into log (value) values (new.value)`,
  )
  for (const value of upTo(5)) expect(await add()).toBe(value)
  expect(await sums(database)).toEqual(Array(4).fill(5))
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
  expect(statements).toEqual(Array(4).fill(expect.stringMatching(IN_ONE_TRIP)))
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
    const { add, database, strike, due } = await countersWith()
    strike([/^select found from fence/, delivery])
    expect(await add()).toBe(1)
    expect(due).toEqual([])
    expect(await sums(database)).toEqual(Array(4).fill(1))
  },
)

it('looks whether COMMIT took effect when it is answered with an error', async () => {
  const { counters, database, strike, due } = await countersWith()
  strike([/^commit$/, { instead: "signal sqlstate '45000'" }])
  const statements = collectStatements()
  const changes = await Promise.all([a, b].map((key) => counters.incrementBy(key, 1)))
  expect(changes.map(({ value }) => value)).toEqual([1, 1])
  expect(statements.filter((text) => LOOK.test(text))).toHaveLength(1)
  expect(due).toEqual([])
  expect(await sums(database)).toEqual(Array(4).fill(2))
})
