// @module-tag random
import fc from 'fast-check'
import { Temporal } from 'temporal-polyfill'
import { expect, it } from 'vitest'
import { PERIODS, type Period } from '../../src/rules/calendar.ts'
import { freshDatabase } from '../support/database/database.ts'
import { periodNameAt } from '../support/model/periods.ts'
import { runSize } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'

const HOUR_MS = 3_600_000

/** Zones, and days on which their clocks are changed, or days like others. */
const places = fc.constantFrom(
  { timeZone: 'Europe/Berlin', days: ['2026-03-29', '2026-10-25'] },
  { timeZone: 'America/New_York', days: ['2026-03-08', '2026-11-01'] },
  { timeZone: 'Asia/Kolkata', days: ['2026-03-29', '2024-02-29'] },
  { timeZone: 'Asia/Kathmandu', days: ['2026-12-31', '2028-02-29'] },
  { timeZone: 'Australia/Lord_Howe', days: ['2026-04-05', '2026-10-04'] },
  { timeZone: 'America/Sao_Paulo', days: ['2018-11-04', '2018-02-18'] },
  { timeZone: 'Pacific/Apia', days: ['2011-12-31', '2026-01-01'] },
)

const scenarios = fc.record({
  place: places,
  day: fc.nat({ max: 1 }),
  startsBefore: fc.integer({ min: -10 * HOUR_MS, max: 60 * HOUR_MS }),
  kept: fc.uniqueArray(fc.constantFrom(...PERIODS), { minLength: 1 }),
  isRaised: fc.boolean(),
  hits: fc.array(
    fc.record({
      after: fc.oneof(
        { weight: 5, arbitrary: fc.integer({ min: 0, max: 4 * HOUR_MS }) },
        { weight: 1, arbitrary: fc.integer({ min: 0, max: 40 * 24 * HOUR_MS }) },
      ),
      delta: fc.integer({ min: -3, max: 9 }),
      /** Raised after it to so much more. */
      more: fc.option(fc.integer({ min: -5, max: 99 }), { freq: 3 }),
    }),
    { minLength: 1, maxLength: 25 },
  ),
  requested: fc.constantFrom(...PERIODS),
  last: fc.nat({ max: 60 }),
  from: fc.option(fc.integer({ min: 0, max: 70 * HOUR_MS }), { nil: undefined }),
  to: fc.option(fc.integer({ min: 0, max: 20 * HOUR_MS }), { nil: undefined }),
})

/** Hours have the same name where the clock is put back, but another offset. */
function nameOf(period: Period, at: number, timeZone: string): string {
  const { offset } = Temporal.Instant.fromEpochMilliseconds(at).toZonedDateTimeISO(timeZone)
  return periodNameAt(period, timeZone, at) + (period === 'HOUR' ? offset : '')
}

const fits: Record<Period, Period[]> = {
  HOUR: ['HOUR'],
  DAY: ['DAY', 'HOUR'],
  WEEK: ['WEEK', 'DAY', 'HOUR'],
  MONTH: ['MONTH', 'DAY', 'HOUR'],
  YEAR: ['YEAR', 'MONTH', 'DAY', 'HOUR'],
}

it('history: returns the history that a list of all hits gives, whatever the zone, the clock and the periods', async () => {
  let now = 0
  const { counters } = openTestNth(await freshDatabase(), { now: () => new Date(now) })
  let names = 0
  let answered = 0
  await fc.assert(
    fc.asyncProperty(scenarios, async (scenario) => {
      const { place, day, startsBefore, kept, isRaised, hits, requested, ...range } = scenario
      const { timeZone, days } = place
      const key = { namespace: 'n', name: `c${names++}` }
      now =
        Temporal.PlainDate.from(days[day] ?? '').toZonedDateTime(timeZone).epochMilliseconds - startsBefore
      const definition = { timeZone, periods: kept.map((period) => ({ period })) }
      // What it is raised to counts in no period.
      await (isRaised ? counters.raise(key, 1000, definition) : counters.define(key, definition))
      const list: { at: number; delta: number }[] = []
      for (const { after, delta, more } of hits) {
        now += after
        const { value } = await counters.incrementBy(key, delta)
        if (more !== null) await counters.raise(key, value + more)
        list.push({ at: now, delta })
      }
      const counter = await counters.read(key)
      const from = range.from === undefined ? undefined : new Date(now - range.from)
      const to = range.to === undefined ? undefined : new Date(now - range.to)
      const answer = counters.history(counter, requested, { last: range.last, from, to })
      if (!kept.some((period) => fits[requested].includes(period))) {
        expect(await answer).toBe(null)
        expect(await counters.valueIn(counter, requested)).toBe(null)
        return
      }
      answered += 1
      const buckets = (await answer) ?? []
      for (const [index, { start, end, value }] of buckets.entries()) {
        const name = nameOf(requested, start, timeZone)
        const own = list.filter(({ at }) => nameOf(requested, at, timeZone) === name)
        expect({ name, value }).toEqual({ name, value: own.reduce((sum, { delta }) => sum + delta, 0) })
        expect(nameOf(requested, end - 1, timeZone)).toBe(name)
        expect(nameOf(requested, end, timeZone)).not.toBe(name)
        if (index > 0) expect(start).toBe(buckets[index - 1]?.end)
      }
      // What lies at its ends.
      const until = to?.getTime() ?? now + 1
      const isEmpty = from ? from.getTime() >= until : range.last === 0
      if (isEmpty) {
        expect(buckets).toEqual([])
        return
      }
      expect(nameOf(requested, until - 1, timeZone)).toBe(
        nameOf(requested, buckets.at(-1)?.start ?? 0, timeZone),
      )
      if (from)
        expect(nameOf(requested, from.getTime(), timeZone)).toBe(
          nameOf(requested, buckets[0]?.start ?? 0, timeZone),
        )
      else expect(buckets).toHaveLength(range.last)
      const running = nameOf(requested, now, timeZone)
      const inIt = list.filter(({ at }) => nameOf(requested, at, timeZone) === running)
      expect(await counters.valueIn(counter, requested)).toBe(inIt.reduce((sum, { delta }) => sum + delta, 0))
    }),
    { numRuns: runSize(40, 120), endOnFailure: true },
  )
  expect(answered).toBeGreaterThan(runSize(15, 50))
})
