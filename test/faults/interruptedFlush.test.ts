import { describe, expect, it } from 'vitest'
import { CLASSES, ER, LOCKED, READ_ONLY, REFUSED, UNPREPARED } from '../../src/mysql/errors.ts'
import { claimOf } from '../../src/rules/idempotency.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { type Delivery, type Strokes, startStrikingProxy, TEXTS } from '../support/database/proxy.ts'
import { collectStatements } from '../support/database/statements.ts'
import { sums } from '../support/database/totals.ts'
import { stopClock } from '../support/model/periods.ts'
import { meetsRareCases, runSize } from '../support/random.ts'
import { openTestNth, type TestNthOptions } from '../support/server/nth.ts'

/* Whatever interrupts a flush, what its callers are told of it is what it has done. */

stopClock()

type Counters = ReturnType<typeof openTestNth>['counters']
const [a, b, c] = ['a', 'b', 'c'].map((name) => ({ namespace: 'n', name })) as [Key, Key, Key]
type Key = { namespace: string; name: string }

/** A caller who wants the revision as well: its flush takes two trips. */
const inTwoTrips = { withRevision: true }

/** Three counters at 0 that this process has changed, reached through a proxy. */
async function openCounters(options: Partial<TestNthOptions> = {}) {
  const database = await freshDatabase()
  const { target, due, sessions } = await startStrikingProxy(database)
  const { counters, faults } = openTestNth(target, { random: () => 0, ...options })
  for (const key of [a, b, c]) await counters.reset(key, 0)
  // Its statement is prepared.
  await counters.incrementBy(a, 0)
  return {
    ...{ counters, database, faults, due, sessions },
    strike: (...strokes: Strokes) => void due.push(...strokes),
    /** Every stroke has fallen, and the values and the totals of hours, days and months are what was answered. */
    async expectSum(value: number) {
      expect(due).toEqual([])
      expect(await sums(database)).toEqual(Array(4).fill(value))
    },
  }
}

/** A way in which flushes commit, by its text that changes counters and its text that commits. */
interface Path {
  path: string
  changes: RegExp
  commits?: RegExp
  /** Adds 1 to each of `keys`, for the so manieth time. Returns their values. */
  keys: readonly Key[]
  add(counters: Counters, time: number): Promise<{ value: number }[]>
}

const PATHS: Path[] = [
  {
    path: 'one trip',
    changes: TEXTS.addsAndCommits,
    keys: [a],
    add: (counters) => Promise.all([counters.incrementBy(a, 1)]),
  },
  {
    path: 'two trips',
    changes: TEXTS.begins,
    commits: TEXTS.commits,
    keys: [a],
    add: (counters) => Promise.all([counters.incrementBy(a, 1, inTwoTrips)]),
  },
  {
    path: 'additions to several counters',
    changes: /^start transaction;[^;]*;\s*set @found/,
    commits: TEXTS.commits,
    keys: [a, b, c],
    add: (counters) => Promise.all([a, b, c].map((key) => counters.incrementBy(key, 1))),
  },
  {
    path: 'a call with a key, sent three times',
    changes: TEXTS.begins,
    // What was decided under lock, and what is stored under the key, goes in one text with COMMIT.
    commits: /idempotency_key[\s\S]*;\s*commit$/,
    keys: [a],
    async add(counters, time) {
      const claim = claimOf('n', `key ${time}`, [])
      const answers = await Promise.all([1, 2, 3].map(() => counters.incrementBy(a, 1, { claim })))
      expect(answers.map(({ value, isReplayed }) => [value, isReplayed])).toEqual(
        [false, true, true].map((isReplayed) => [time, isReplayed]),
      )
      return answers.slice(0, 1)
    },
  },
]

describe.each(PATHS)('a flush: $path', ({ changes, commits, keys, add }) => {
  const texts = [changes, commits].filter((text) => text !== undefined)

  it('counts once, and returns the numbers, where the connection is cut', async () => {
    const { counters, strike, expectSum, faults } = await openCounters()
    const ends = texts.flatMap((text): Strokes[] => [
      [[text, 'is cut off']],
      [[text, 'stays unanswered']],
      [[text, { answeredBytes: 40 }]],
      [
        [text, 'stays unanswered'],
        [TEXTS.readsFence, 'is cut off'],
      ],
    ])
    ends.push([
      [commits ?? changes, 'stays unanswered'],
      [TEXTS.readsFence, 'stays unanswered'],
      [TEXTS.opensSession, 'is cut off'],
    ])
    let time = 0
    for (const strokes of ends) {
      // Without a fault at first: what the previous flush has applied is not mistaken for the next one.
      for (const value of [++time, ++time]) {
        if (value % 2 === 0) strike(...strokes)
        expect([strokes, await add(counters, value)]).toMatchObject([strokes, keys.map(() => ({ value }))])
      }
    }
    await expectSum(keys.length * time)
    expect(faults).toEqual([])
  })

  it('counts once where the server answers with an error', { tags: 'random' }, async () => {
    const { counters, strike, due, expectSum } = await openCounters()
    let time = 0
    for (const text of texts)
      for (const [name, errno, isFault] of errors()) {
        strike([text, { errno }])
        // What doesn't let the server change anything may last. Then the flush takes two trips.
        if (!isFault) strike([text === TEXTS.addsAndCommits ? TEXTS.begins : text, { errno }])
        // A counter that was quarantined takes two trips for a while.
        while (due.length > 0) {
          const value = ++time
          expect([name, await add(counters, value)]).toMatchObject([name, keys.map(() => ({ value }))])
        }
      }
    await expectSum(keys.length * time)
  })
})

/**
 * All errors of servers that Nth knows; in a short run, those that have a meaning of their own, and one of each class. After
 * the last one, its session prepares no statements any more.
 */
function errors(): (readonly [name: string, errno: number, isFault: boolean])[] {
  const special: number[] = [...LOCKED, ...READ_ONLY, ...REFUSED, ER.LOCK_DEADLOCK, ER.SUBQUERY_NO_1_ROW]
  const unprepared: number[] = UNPREPARED
  const all = Object.values(CLASSES).flatMap((numbers) =>
    Object.entries<number>(numbers)
      .filter(([, errno]) => !unprepared.includes(errno))
      .filter(([, errno], index) => meetsRareCases() || index === 0 || special.includes(errno))
      .map(([name, errno]) => [name, errno, numbers === CLASSES.OTHERS] as const),
  )
  return [...all, ['NEED_REPREPARE', ER.NEED_REPREPARE, true]]
}

const ER_KILL_DENIED = 1095

describe('a flush in one trip', () => {
  it.each([
    ['before it is sent again', 1],
    ['after it was sent again, and committed', 2],
  ])('does not count what arrives after the fence was read, %s', async (_, arrivesBefore) => {
    const { counters, strike, due, database } = await openCounters()
    // Else the old connection would be ended.
    strike([TEXTS.addsAndCommits, { arrivesBefore }], [/^kill /, { errno: ER_KILL_DENIED }])
    for (const value of [1, 2]) expect(await counters.incrementBy(a, 1)).toMatchObject({ value })
    // Nth sends no `kill` to a server that has just started.
    expect(due.map(([text]) => text)).not.toContain(TEXTS.addsAndCommits)
    expect(await sums(database)).toEqual(Array(4).fill(2))
  })

  it('counts once wherever in the answer the connection is cut', { tags: 'random' }, async () => {
    const { counters, strike, sessions, expectSum } = await openCounters()
    const step = Math.ceil(100 / runSize(10, 60))
    let bytes = 0
    for (let isCut = true; isCut; bytes += step) {
      const before = sessions()
      strike([TEXTS.addsAndCommits, { answeredBytes: bytes }])
      expect(await counters.incrementBy(a, 1)).toMatchObject({ value: bytes / step + 1 })
      isCut = sessions() > before
    }
    expect(bytes).toBeGreaterThan(7)
    await expectSum(bytes / step)
  })

  it.each<Delivery>([
    'is cut off',
    'stays unanswered',
    { errno: ER.MAX_PREPARED_STMT_COUNT_REACHED },
    { errno: ER.UNSUPPORTED_PS },
    { errno: ER.OPTION_PREVENTS_STATEMENT },
  ])('counts once where the preparing of its statement %o', async (delivery) => {
    const database = await freshDatabase()
    const { target, due } = await startStrikingProxy(database)
    due.push([/^prepare /, delivery])
    const { counters, faults } = openTestNth(target)
    await counters.reset(a, 0)
    for (const value of upTo(3)) expect(await counters.incrementBy(a, 1)).toMatchObject({ value })
    expect([due, faults]).toEqual([[], []])
    expect(await sums(database)).toEqual(Array(4).fill(3))
  })

  it('counts once where the value before it is 0, and can not be read', async () => {
    const { counters, strike, expectSum } = await openCounters()
    const errors = [
      ER.LOCK_DEADLOCK,
      ER.LOCK_WAIT_TIMEOUT,
      ER.OPTION_PREVENTS_STATEMENT,
      ER.NEW_ABORTING_CONNECTION,
    ]
    const deliveries = [...errors.map((errno) => ({ errno })), { instead: 'select null as found' }]
    for (const delivery of deliveries) {
      strike([/^select found from fence/, delivery])
      expect([delivery, await counters.incrementBy(a, 1)]).toMatchObject([delivery, { value: 1 }])
      expect(await counters.incrementBy(a, -1)).toMatchObject({ value: 0 })
    }
    await expectSum(0)
  })
})

describe('a flush in two trips', () => {
  it('counts once where the connection is cut when its periods are read', async () => {
    const { counters, database, strike, expectSum } = await openCounters()
    await query(database, 'update counter_value set hour_start = hour_start - 3600')
    strike([/^select counter_id[^;]* unix_timestamp\(\)/, 'is cut off'])
    expect(await counters.incrementBy(a, 1, inTwoTrips)).toMatchObject({ value: 1, previousValue: 0 })
    await expectSum(1)
  })

  it('reads its fence where COMMIT is answered with an error', async () => {
    const { counters, strike, expectSum } = await openCounters()
    strike([TEXTS.commits, { instead: "signal sqlstate '45000'" }])
    const statements = collectStatements()
    const changes = await Promise.all([a, b].map((key) => counters.incrementBy(key, 1)))
    expect(changes.map(({ value }) => value)).toEqual([1, 1])
    expect(statements.filter((text) => TEXTS.readsFence.test(text))).toHaveLength(1)
    await expectSum(2)
  })
})

describe('a flush that can not be sent again', () => {
  /** No new session can be opened. */
  const UNREACHABLE = upTo(500).map(() => [TEXTS.opensSession, 'is cut off'] as const)

  it('has an outcome at its deadline, of which nothing but the fence could tell more', {
    tags: 'slow',
  }, async () => {
    const claim = claimOf('n', 'k', [])
    const lost = [TEXTS.commits, 'stays unanswered'] as const
    type Case = [string, object, number, Strokes[number], (counters: Counters) => Promise<unknown>]
    const inTwo: Case[4] = (counters) => counters.incrementBy(a, 1, inTwoTrips)
    const inOne: Case[4] = (counters) => counters.incrementBy(a, 1)
    const withKey: Case[4] = (counters) => counters.incrementBy(a, 1, { claim })
    const withSubject: Case[4] = (counters) => counters.countOnce(a, 'ann')
    const cases: Case[] = [
      ['OUTCOME_UNKNOWN', {}, 1000, lost, inTwo],
      // With less time left, it would take two trips.
      ['OUTCOME_UNKNOWN', {}, 3500, [TEXTS.addsAndCommits, 'stays unanswered'], inOne],
      // The same may be sent again.
      ['OUTCOME_UNKNOWN', { retryable: true }, 1000, lost, withKey],
      ['OUTCOME_UNKNOWN', { retryable: true }, 1000, lost, withSubject],
      ['UNAVAILABLE', { retryAfterMs: 1000 }, 1000, [TEXTS.begins, 'is cut off'], inTwo],
    ]
    const outcomes = cases.map(async ([, , timeoutMs, stroke, call]) => {
      const { counters, strike } = await openCounters({ timeoutMs, random: () => 1 })
      // It has a salt then.
      await counters.countOnce(a, 'bob')
      strike(stroke, ...UNREACHABLE)
      return call(counters).catch(({ code, details }) => [code, details])
    })
    expect(await Promise.all(outcomes)).toEqual(cases.map(([code, details]) => [code, details]))
  })

  it.each([
    ['one trip', TEXTS.addsAndCommits, {}],
    ['two trips', TEXTS.commits, inTwoTrips],
  ])(
    'is OUTCOME_UNKNOWN when the fence is gone, as after a failover to a server that lags behind: %s',
    async (_, text, options) => {
      const { counters, database, strike, due, faults } = await openCounters({ worksDespiteLoss: true })
      strike([text, 'stays unanswered'], ...UNREACHABLE)
      const answer = counters.incrementBy(a, 1, options).catch(({ code }) => code)
      await expect.poll(() => due.length).toBeLessThan(UNREACHABLE.length)
      await query(database, 'delete from fence')
      due.length = 0
      expect(await answer).toBe('OUTCOME_UNKNOWN')
      expect(faults.map(String)).toEqual([expect.stringContaining('lacks changes')])
      expect((await counters.incrementBy(a, 1)).value).toBe(2)
    },
  )
})

it('reads: read a counter again when the read is cut off', async () => {
  const { counters, strike, due } = await openCounters()
  strike([/counter_value v/, 'is cut off'])
  expect((await counters.read(a)).value).toBe(0)
  expect(due).toEqual([])
})
