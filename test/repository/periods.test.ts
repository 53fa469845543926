// @module-tag random
import { expect, it } from 'vitest'
import type { CounterChange } from '../../src/repository/counters.ts'
import { calendarOf } from '../../src/rules/calendar.ts'
import { claimOf } from '../../src/rules/idempotency.ts'
import { sorted, upTo } from '../support/client/client.ts'
import { freshDatabase } from '../support/database/database.ts'
import { sums } from '../support/database/totals.ts'
import { key, never, stopClock, turnedClock, valueIn, withPeriodValues } from '../support/model/periods.ts'
import { runSize } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

stopClock()

const HOUR_MS = 3_600_000

it('valueIn: returns to each caller their number in the hour, the day and the month', async () => {
  const { ask } = await startService()
  const fields = 'value hour: valueIn(period: HOUR) day: valueIn(period: DAY) month: valueIn(period: MONTH)'
  const { a, b } = await ask(
    `mutation { a: incrementBy(name: "c", delta: 12) { ${fields} } b: increment(name: "c") { ${fields} } }`,
  )
  expect(a).toEqual({ value: 12, hour: 12, day: 12, month: 12 })
  expect(b).toEqual({ value: 13, hour: 13, day: 13, month: 13 })
  // Weeks and years are not kept by default. A week is computed from the days that are kept.
  const { increment, counter } = await ask(
    'mutation { increment(name: "c") { week: valueIn(period: WEEK) year: valueIn(period: YEAR) counter { week: valueIn(period: WEEK) year: valueIn(period: YEAR) } } }',
  ).then(({ increment }) => ({ increment, counter: increment.counter }))
  expect([increment.week, increment.year, counter]).toEqual([null, null, { week: 14, year: 14 }])
})

it('valueIn: restarts period totals with each hour, day and month, while the value continues', async () => {
  const clock = turnedClock('2027-02-28T22:59:59.999Z')
  const { counters } = openTestNth(await freshDatabase(), clock)
  const seen = []
  for (const _ of upTo(3)) {
    for (const _ of upTo(2)) {
      const { value, valuesIn } = await counters.incrementBy(key, 1, withPeriodValues)
      seen.push([value, valuesIn?.HOUR, valuesIn?.DAY, valuesIn?.MONTH])
    }
    clock.at += HOUR_MS
  }
  expect(seen).toEqual([
    [1, 1, 1, 1],
    [2, 2, 2, 2],
    [3, 1, 3, 3],
    [4, 2, 4, 4],
    [5, 1, 1, 1],
    [6, 2, 2, 2],
  ])
})

it('valueIn: repeats the numbers of the first call with an idempotency key, also when its month is over', async () => {
  const clock = turnedClock('2027-01-31T23:59:59Z')
  const { counters } = openTestNth(await freshDatabase(), clock)
  await counters.incrementBy(key, 11)
  const claim = claimOf('n', 'k', [])
  // It didn't ask then; its repeat does.
  const first = await counters.incrementBy(key, 1, { claim })
  clock.at += HOUR_MS
  await counters.incrementBy(key, 1)
  const repeat = await counters.incrementBy(key, 1, { claim, wantsPeriodValues: true })
  expect(repeat).toMatchObject({ value: 12, isReplayed: true, at: first.at })
  expect(repeat.valuesIn).toEqual({ HOUR: 12, DAY: 12, MONTH: 12 })
  expect(await valueIn(counters, 'MONTH')).toBe(1)
})

it('valueIn: a total beyond the safe range is refused, also where many counters are changed in one flush, and the others are changed', async () => {
  const { counters } = openTestNth(await freshDatabase())
  const keys = upTo(4).map((index) => ({ namespace: 'n', name: `c${index}` }))
  const full = keys[1] ?? key
  await counters.incrementBy(full, Number.MAX_SAFE_INTEGER)
  await Promise.all(keys.map((each) => counters.reset(each, 0)))
  const change = (delta: number) =>
    Promise.all(
      keys.map((each) =>
        counters.incrementBy(each, delta).then(
          ({ value }) => value,
          ({ code }) => code,
        ),
      ),
    )
  expect(await change(1)).toEqual([1, 'OUT_OF_RANGE', 1, 1])
  expect(await change(-1)).toEqual([0, -1, 0, 0])
  expect((await counters.readMany(keys)).map(({ value }) => value)).toEqual([0, -1, 0, 0])
})

it('history: returns up to 2 500 periods', async () => {
  const { counters } = openTestNth(await freshDatabase())
  await counters.incrementBy(key, 1)
  const history = async (last: number) => counters.history(await counters.read(key), 'HOUR', { last })
  expect(await history(2500)).toHaveLength(2500)
  await expect(history(2501)).rejects.toMatchObject({ details: { argument: 'last', limit: 2500 } })
})

const ROUNDS = runSize(16, 50)
/** In Lord Howe, hours begin at half past, and the clock changes by half an hour. */
const ZONES = { a: 'UTC', b: 'Europe/Berlin', c: 'America/New_York', d: 'Australia/Lord_Howe' }

it.each([
  ['the new year', '2025-12-30T00:59:59.999Z'],
  ['the end of summer time in Berlin', '2025-10-25T00:59:59.999Z'],
  ['the end of summer time in Lord Howe', '2026-04-03T14:59:59.999Z'],
  // Each process takes the periods of the other for those of a wrong clock.
  ['a new year that is far ahead of the clock of the database', '2097-12-30T00:59:59.999Z'],
])(
  'valueIn: loses no hit, and refuses none, at each hour up to %s, in two processes with clocks 300 ms apart',
  async (_, from) => {
    const clock = turnedClock(from)
    const target = await freshDatabase()
    const behind = { now: () => new Date(clock.at - 300) }
    const processes = [clock, behind].map((its) => openTestNth(target, its))
    const names = Object.keys(ZONES)
    for (const [name, timeZone] of Object.entries(ZONES))
      await processes[0]?.counters.define({ namespace: 'n', name }, { timeZone })
    const changes: CounterChange[] = []
    const hit = (caller: number) => {
      const { counters } = processes[caller % 2] ?? never()
      return counters.incrementBy(
        { namespace: 'n', name: names[(caller >> 1) % 4] ?? '' },
        1,
        withPeriodValues,
      )
    }
    for (const round of upTo(2 * ROUNDS)) {
      const before = upTo(20).map(hit)
      await new Promise((resolve) => setImmediate(resolve))
      // Those are under way, or not yet, when one clock turns, and others come.
      clock.at += 1
      const after = upTo(20).map(hit)
      changes.push(...(await Promise.all([...before, ...after])))
      // Half of the turns are those of the hours that begin at half past.
      clock.at += HOUR_MS / 2 - 1
      if (round % 2) changes.push(...(await Promise.all(upTo(8).map(hit))))
    }
    expect(await sums(target)).toEqual(Array(4).fill(changes.length))
    // In each period, each counter's callers have the numbers from 1 on.
    for (const period of ['HOUR', 'DAY', 'MONTH'] as const) {
      const numbersIn = new Map<string, number[]>()
      for (const { key, at, valuesIn } of changes) {
        const { start } = calendarOf(ZONES[key.name as 'a']).bucketAt(period, at.getTime())
        const one = `${key.name} ${start}`
        numbersIn.set(one, [...(numbersIn.get(one) ?? []), valuesIn?.[period] ?? 0])
      }
      if (period === 'HOUR') expect(numbersIn.size).toBeGreaterThanOrEqual(4 * ROUNDS)
      for (const numbers of numbersIn.values()) expect(sorted(numbers)).toEqual(upTo(numbers.length))
    }
    expect(processes.flatMap(({ faults }) => faults)).toEqual([])
  },
)
