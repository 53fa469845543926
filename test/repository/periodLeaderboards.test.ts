// @module-tag random
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { sweepPeriods } from '../../src/repository/jobs.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, openTestDatabase, query } from '../support/database/database.ts'
import { divide, runLeaderboardJobs, wrongBlocks } from '../support/database/leaderboards.ts'
import { periodNameAt } from '../support/model/periods.ts'
import { runSize } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'

const HOUR_MS = 3_600_000
const ZONES = ['UTC', 'Asia/Tokyo', 'America/New_York', 'Asia/Kathmandu'] as const
const PERIODS = ['HOUR', 'DAY', 'WEEK', 'MONTH'] as const

const changes = fc.array(
  fc.record({
    counter: fc.nat(5),
    process: fc.nat(1),
    delta: fc.integer({ min: -2, max: 4 }),
    waits: fc.oneof({ weight: 5, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(HOUR_MS / 4) }),
  }),
  { maxLength: 10 },
)

it('place(period:): places counters by what was added in the periods of their own time zones, now and in the past', async () => {
  const rounds = fc.array(fc.record({ changes, waits: fc.nat(40 * 24 * HOUR_MS) }), {
    minLength: 1,
    maxLength: 5,
  })
  const period = fc.constantFrom(...PERIODS)
  const from = fc.constantFrom('2026-03-08T05:10:00Z', '2026-10-31T14:50:00Z', '2026-12-31T23:59:00Z')
  await fc.assert(
    fc.asyncProperty(rounds, period, from, fc.boolean(), async (rounds, period, from, isAskedLate) => {
      const target = await freshDatabase()
      let now = Date.parse(from)
      const clock = { now: () => new Date(now) }
      const processes = [openTestNth(target, clock), openTestNth(target, clock)] as const
      const [{ counters, namespaces, leaderboard }] = processes
      const keep = () => namespaces.define('n', { leaderboards: [period] })
      if (!isAskedLate) await keep()
      const zoneOf = (counter: number) => ZONES[counter % ZONES.length] ?? 'UTC'
      for (let counter = 0; counter < 6; counter++) {
        const definition = { timeZone: zoneOf(counter), periods: [{ period }], slots: counter === 5 ? 3 : 1 }
        await counters.define({ namespace: 'n', name: `c${counter}` }, definition)
      }
      const added = new Map<string, number>()
      const instants: number[] = []

      /** The place of each counter in its own period that contains an instant. */
      async function check(): Promise<void> {
        const cases = instants
          .slice(-5)
          .flatMap((at) => upTo(6).map((number) => ({ at, counter: number - 1 })))
        const places = await Promise.all(
          cases.map(({ at, counter }) => {
            const periodKey = leaderboard.periodKey(period, zoneOf(counter), new Date(at))
            return leaderboard.place({ namespace: 'n', name: `c${counter}`, periodKey, lowestFirst: false })
          }),
        )
        const expected = cases.map(({ at, counter }) => {
          const name = periodNameAt(period, zoneOf(counter), at)
          const others = [...added].flatMap(([key, value]) => (key.startsWith(`${name} `) ? [value] : []))
          const value = added.get(`${name} c${counter}`) ?? 0
          return value === 0 ? null : 1 + others.filter((other) => other !== 0 && other > value).length
        })
        expect(cases.map((each, index) => ({ ...each, place: places[index] }))).toEqual(
          cases.map((each, index) => ({ ...each, place: expected[index] })),
        )
        expect(await wrongBlocks(target)).toEqual([])
      }

      for (const { changes, waits } of rounds) {
        for (const { counter, process, delta, waits } of changes) {
          await processes[process === 1 ? 1 : 0].counters.incrementBy(
            { namespace: 'n', name: `c${counter}` },
            delta,
          )
          const key = `${periodNameAt(period, zoneOf(counter), now)} c${counter}`
          added.set(key, (added.get(key) ?? 0) + delta)
          instants.push(now)
          now += waits
        }
        const page = { order: 'VALUE_DESC', limit: 1, fromEnd: false } as const
        await Promise.all(processes.map(({ leaderboard }) => leaderboard.list('n', page)))
        if (!isAskedLate) await check()
        await divide(target, [1, 4])
        now += waits
      }
      if (isAskedLate) {
        await keep()
        // What was added earlier is not kept.
        instants.splice(0, instants.length, ...instants.filter((at) => now - at < 10 * HOUR_MS))
        await runLeaderboardJobs(target, new Date(now))
        await check()
      }
      for (const { close, faults } of processes) {
        expect(faults).toEqual([])
        await close()
      }
    }),
    { numRuns: runSize(5, 60) },
  )
})

/** Two counters of the hour from noon, with 5 and 3 added in it, and a clock. */
async function twoOfAnHour() {
  const target = await freshDatabase()
  let now = Date.parse('2026-11-26T12:00:00Z')
  const { counters, namespaces, leaderboard } = openTestNth(target, { now: () => new Date(now) })
  await namespaces.define('n', { leaderboards: ['HOUR'] })
  const add = (name: string, delta: number) => counters.incrementBy({ namespace: 'n', name }, delta)
  for (const [name, delta] of Object.entries({ a: 5, b: 3 })) {
    await counters.define({ namespace: 'n', name }, { periods: [{ period: 'HOUR' }] })
    await add(name, delta)
  }
  const periodKey = leaderboard.periodKey('HOUR', 'UTC', new Date(now))
  const places = () =>
    Promise.all(
      ['a', 'b'].map((name) => leaderboard.place({ namespace: 'n', name, periodKey, lowestFirst: false })),
    )
  expect(await places()).toEqual([1, 2])
  const wait = (hours: number) => {
    now += hours * HOUR_MS
    return new Date(now)
  }
  return { target, namespaces, add, places, wait }
}

it('period leaderboards: what is copied hours later, as after an outage, counts in its hour', async () => {
  const { add, places, wait } = await twoOfAnHour()
  await add('b', 3)
  wait(3)
  expect(await places()).toEqual([2, 1])
})

it('period leaderboards: what a process that was killed hours ago had not copied counts in its hour', async () => {
  const { target, places, wait } = await twoOfAnHour()
  await query(
    target,
    "update counter_value v join counter c on c.id = v.counter_id set hour_added = 6, revision = revision + 1 where c.name = 'b'",
  )
  await runLeaderboardJobs(target, wait(3))
  expect(await places()).toEqual([2, 1])
})

it('period leaderboards: the last twelve of a period are kept, and earlier ones deleted', async () => {
  const { target, places, wait } = await twoOfAnHour()
  const database = openTestDatabase(target)
  const sweep = (now: Date) => sweepPeriods({ database, now, shouldContinue: () => true })
  // A zone may be a day behind.
  await sweep(wait(12 + 24))
  expect(await places()).toEqual([1, 2])
  await sweep(wait(1))
  expect(await places()).toEqual([null, null])
  const left =
    'select period_key from leaderboard_block where period_key > 0 union select period_key from leaderboard_period'
  expect(await query(target, left)).toEqual([])
})

it('period leaderboards: are filled without a counter that cannot be parsed, which is reported', async () => {
  const { target, namespaces } = await twoOfAnHour()
  await query(
    target,
    'delete from leaderboard_period',
    'delete from leaderboard_block',
    "update namespace set filled_leaderboards = ''",
    "update counter set periods = 'FORTNIGHT' where name = 'a'",
  )
  await expect(runLeaderboardJobs(target)).rejects.toThrow('FORTNIGHT')
  expect((await namespaces.read('n')).filled).toEqual(['HOUR'])
})

it('place(period:): places what was added at the end of a period and copied after it', async () => {
  const target = await freshDatabase()
  let now = Date.parse('2026-11-30T23:59:59Z')
  const { counters, namespaces, leaderboard } = openTestNth(target, { now: () => new Date(now) })
  await namespaces.define('n', { leaderboards: ['MONTH'] })
  await counters.incrementBy({ namespace: 'n', name: 'a' }, 5)
  await counters.incrementBy({ namespace: 'n', name: 'b' }, 7)
  now += 2000
  await counters.incrementBy({ namespace: 'n', name: 'a' }, 1)
  const place = (name: string, periodKey: number) =>
    leaderboard.place({ namespace: 'n', name, periodKey, lowestFirst: false })
  expect([await place('a', 202611), await place('b', 202611)]).toEqual([2, 1])
  expect([await place('a', 202612), await place('b', 202612)]).toEqual([1, null])
  // Of a period that is tracked again, earlier totals are incomplete.
  for (const periods of [[], [{ period: 'MONTH' }]] as const)
    await counters.define({ namespace: 'n', name: 'a' }, { periods })
  expect([await place('a', 202611), await place('b', 202611)]).toEqual([null, 1])
})

it('place(period:): follows a change of the tracked periods and of the time zone, and forgets deleted counters', async () => {
  const target = await freshDatabase()
  const now = () => new Date('2026-11-30T20:00:00Z')
  const { counters, namespaces, leaderboard } = openTestNth(target, { now })
  await namespaces.define('n', { leaderboards: ['MONTH'] })
  for (const [name, delta] of Object.entries({ a: 3, b: 2, c: 1 }))
    await counters.incrementBy({ namespace: 'n', name }, delta)
  const placeOfC = (periodKey: number) =>
    leaderboard.place({ namespace: 'n', name: 'c', periodKey, lowestFirst: false })
  expect(await placeOfC(202611)).toBe(3)
  await counters.define({ namespace: 'n', name: 'a' }, { periods: [] })
  expect(await placeOfC(202611)).toBe(2)
  await counters.delete({ namespace: 'n', name: 'b' })
  expect(await placeOfC(202611)).toBe(1)
  // There, December has begun, and has what was added in the month that ends in it.
  await counters.define({ namespace: 'n', name: 'c' }, { timeZone: 'Asia/Tokyo' })
  await counters.incrementBy({ namespace: 'n', name: 'c' }, 1)
  expect([await placeOfC(202611), await placeOfC(202612)]).toEqual([1, 1])
  await counters.define({ namespace: 'n', name: 'c' }, { timeZone: 'UTC' })
  expect([await placeOfC(202611), await placeOfC(202612)]).toEqual([1, null])
  expect(await wrongBlocks(target)).toEqual([])
})
