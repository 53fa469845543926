import { expect, it } from 'vitest'
import { CLASSES } from '../../src/mysql/errors.ts'
import { claimOf } from '../../src/rules/idempotency.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { type Delivery, startProxy } from '../support/database/proxy.ts'
import { sums } from '../support/database/totals.ts'
import { AMPLE_MS, openTestNth } from '../support/server/nth.ts'

const key = { namespace: 'n', name: 'c' }

const FLUSH = /^start transaction;\nupdate fence\s+set seq/
const READ_AGAIN = /^select counter_id[^;]* unix_timestamp\(\)/
const COMMIT = /(^|;\n)commit$/
const IN_ONE_STATEMENT = /^update fence straight_join/
const LOOK = /update fence set epoch/
const NEW_SESSION = /^set session\s+sql_mode/

/** A caller who wants the revision as well: its flush takes two trips. */
const inTwoTrips = { withRevision: true }

type Stroke = readonly [pattern: RegExp, delivery: Delivery]

/** A counter that stands at 0, reached through a proxy that delivers one statement in each of these ways. */
async function counterWith(strokes: readonly Stroke[], { timeoutMs = AMPLE_MS, isOfLastHour = false } = {}) {
  const due: Stroke[] = []
  const database = await freshDatabase()
  const target = await startProxy(database, (statement) => {
    const index = due.findIndex(([pattern]) => pattern.test(statement))
    const [stroke] = index < 0 ? [] : due.splice(index, 1)
    return stroke?.[1] ?? 'passes'
  })
  const { counters } = openTestNth(target, { timeoutMs })
  await counters.reset(key, 0)
  if (isOfLastHour) await query(database, 'update counter_value set hour_start = hour_start - 3600')
  const strike = (more: readonly Stroke[]) => void due.push(...more)
  strike(strokes)
  return {
    counters,
    strike,
    /** Every stroke has fallen, and the value and the totals of hour, day and month are what was answered. */
    async expectCounted(value: number) {
      expect(due).toEqual([])
      expect(await sums(database)).toEqual([value, value, value, value])
    },
  }
}

it.each<[string, Stroke[]]>([
  ['its statements', [[FLUSH, 'is cut off']]],
  ['the answers to its statements', [[FLUSH, 'stays unanswered']]],
  ['COMMIT', [[COMMIT, 'is cut off']]],
  ['the answer to COMMIT', [[COMMIT, 'stays unanswered']]],
  [
    'COMMIT, and then the look',
    [
      [COMMIT, 'is cut off'],
      [LOOK, 'is cut off'],
    ],
  ],
  [
    'the answer to COMMIT, then the look, then the next connection',
    [
      [COMMIT, 'stays unanswered'],
      [LOOK, 'stays unanswered'],
      [NEW_SESSION, 'is cut off'],
    ],
  ],
])('counts once, and returns the number, when the connection is cut at %s', async (_, strokes) => {
  const { counters, expectCounted } = await counterWith(strokes)
  expect(await counters.incrementBy(key, 1, inTwoTrips)).toMatchObject({ value: 1, previousValue: 0 })
  await expectCounted(1)
})

it('counts once, and returns the number, when the connection is cut at the reading of its periods', async () => {
  const { counters, expectCounted } = await counterWith([[READ_AGAIN, 'is cut off']], { isOfLastHour: true })
  expect(await counters.incrementBy(key, 1, inTwoTrips)).toMatchObject({ value: 1, previousValue: 0 })
  await expectCounted(1)
})

/** What was decided under lock goes in one text with COMMIT, and what is remembered of a key. */
const DECIDED = /idempotency_key[\s\S]*;\ncommit$/

it.each<[string, Stroke[]]>([
  ['its statements', [[FLUSH, 'is cut off']]],
  ['the answers to its statements', [[FLUSH, 'stays unanswered']]],
  ['what was decided, with COMMIT', [[DECIDED, 'is cut off']]],
  ['the answer to that', [[DECIDED, 'stays unanswered']]],
  [
    'the answer to that, and then the look',
    [
      [DECIDED, 'stays unanswered'],
      [LOOK, 'is cut off'],
    ],
  ],
])('counts once for a key, within a bound, when the connection is cut at %s', async (_, strokes) => {
  const { counters, strike, expectCounted } = await counterWith([])
  await counters.define(key, { maxValue: 1 })
  strike(strokes)
  const claim = claimOf('n', 'k', [])
  const calls = [1, 2, 3].map(() =>
    counters.incrementBy(key, 1, { claim }).then(({ value, isReplayed }) => [value, isReplayed]),
  )
  expect(await Promise.all(calls)).toEqual([
    [1, false],
    [1, true],
    [1, true],
  ])
  await expect(counters.incrementBy(key, 1)).rejects.toMatchObject({ code: 'LIMIT_REACHED' })
  await expectCounted(1)
})

const classes = Object.entries(CLASSES).map(
  ([name, numbers]) => [name, Object.entries<number>(numbers)] as const,
)

it.each(classes)(
  'counts once for a key when what was decided is answered with one of %s',
  { tags: 'slow' },
  async (_, errors) => {
    const { counters, strike, expectCounted } = await counterWith([])
    for (const [index, [name, errno]] of errors.entries()) {
      strike([[DECIDED, { errno }]])
      const claim = claimOf('n', name, [])
      const { value, isReplayed } = await counters.incrementBy(key, 1, { claim })
      expect([name, value, isReplayed]).toEqual([name, index + 1, false])
      const again = await counters.incrementBy(key, 1, { claim })
      expect([name, again.value, again.isReplayed]).toEqual([name, index + 1, true])
      await expectCounted(index + 1)
    }
  },
)

it.each(classes)('counts once when COMMIT is answered with one of %s', async (_, errors) => {
  const { counters, strike, expectCounted } = await counterWith([])
  for (const [index, [name, errno]] of errors.entries()) {
    strike([[COMMIT, { errno }]])
    expect([name, (await counters.incrementBy(key, 1, inTwoTrips)).value]).toEqual([name, index + 1])
    await expectCounted(index + 1)
  }
})

it.each(classes)('tries again when its statements are answered with one of %s', async (_, errors) => {
  const { counters, strike, expectCounted } = await counterWith([])
  for (const [index, [name, errno]] of errors.entries()) {
    strike([[FLUSH, { errno }]])
    expect([name, (await counters.incrementBy(key, 1, inTwoTrips)).value]).toEqual([name, index + 1])
    await expectCounted(index + 1)
  }
})

const ENDS = [
  ['COMMIT', COMMIT, inTwoTrips],
  ['one statement', IN_ONE_STATEMENT, {}],
] as const

it.each(ENDS)(
  'reports an unknown outcome of %s only where the fence could not be read in time',
  async (_, end, options) => {
    const strokes = Array.from({ length: 100 }, (): Stroke => [NEW_SESSION, 'is cut off'])
    const { counters } = await counterWith([[end, 'stays unanswered'], ...strokes], { timeoutMs: 4000 })
    const refusal = await counters
      .incrementBy(key, 1, options)
      .catch(({ code, details }) => ({ code, details }))
    expect(refusal).toEqual({ code: 'OUTCOME_UNKNOWN', details: {} })
  },
)

it('says after an unknown outcome that the same may be sent again, if there is a key', async () => {
  const strokes = Array.from({ length: 100 }, (): Stroke => [NEW_SESSION, 'is cut off'])
  const { counters } = await counterWith([[DECIDED, 'stays unanswered'], ...strokes], { timeoutMs: 2000 })
  await expect(counters.incrementBy(key, 1, { claim: claimOf('n', 'k', []) })).rejects.toMatchObject({
    code: 'OUTCOME_UNKNOWN',
    details: { retryable: true },
  })
})

it.each(ENDS)(
  'reports an unknown outcome of %s when the fence is gone, as after a failover to a server that lags behind',
  async (_, end, options) => {
    const database = await freshDatabase()
    let phase: 'counting' | 'cutting' | 'cut' = 'counting'
    const target = await startProxy(database, (statement) => {
      if (phase === 'cutting' && end.test(statement)) {
        phase = 'cut'
        return 'stays unanswered'
      }
      return phase === 'cut' && NEW_SESSION.test(statement) ? 'is cut off' : 'passes'
    })
    const { counters, faults } = openTestNth(target, { worksDespiteLoss: true })
    await counters.reset(key, 0)
    phase = 'cutting'
    const answer = counters.incrementBy(key, 1, options).catch(({ code }) => code)
    await expect.poll(() => phase).toBe('cut')
    await query(database, 'delete from fence')
    phase = 'counting'
    expect(await answer).toBe('OUTCOME_UNKNOWN')
    expect(faults.map(String)).toEqual([expect.stringContaining('lacks changes')])
    expect((await counters.incrementBy(key, 1)).value).toBe(2)
  },
)

it('answers UNAVAILABLE for a change that was not applied, when the database cannot be reached in time', async () => {
  const strokes = Array.from({ length: 100 }, (): Stroke => [NEW_SESSION, 'is cut off'])
  const { counters } = await counterWith([[FLUSH, 'is cut off'], ...strokes], { timeoutMs: 2000 })
  await expect(counters.incrementBy(key, 1, inTwoTrips)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
})

it('reads again when a read is cut off', async () => {
  const { counters } = await counterWith([[/counter_value v/, 'is cut off']])
  expect((await counters.read(key)).value).toBe(0)
})
