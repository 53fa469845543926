// @module-tag random
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { LONGEST_MS, PERIODS } from '../../src/rules/calendar.ts'
import { freshDatabase } from '../support/database/database.ts'
import { ofKind } from '../support/model/ofKind.ts'
import { stopClock } from '../support/model/periods.ts'
import { runSize } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'

stopClock()

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

const zones = [
  'UTC',
  'Pacific/Auckland',
  'America/Los_Angeles',
  'Asia/Kathmandu',
  'Europe/Berlin',
  'Pacific/Apia',
]

const hit = ofKind('hit', 1, { delta: fc.integer({ min: 1, max: 5 }) })
const zone = ofKind('zone', 1, { timeZone: fc.constantFrom(...zones) })
const periods = ofKind('periods', 1, {
  // From hours, all else can be added up.
  kept: fc.subarray([...PERIODS]).filter((kept) => kept.includes('HOUR')),
})
const slots = ofKind('slots', 1, { slots: fc.constantFrom(1, 3) })
const wait = ofKind('wait', 1, {
  ms: fc.oneof(fc.integer({ min: 0, max: 3 * HOUR_MS }), fc.integer({ min: 0, max: 20 * DAY_MS })),
})

/**
 * A row that was kept in another zone is coarser than its hits: after a change of the zone, which row contains a
 * hit depends on the period. So where the periods change, too, only the current periods can be the same for all.
 */
it.each([
  ['periods and slots', fc.oneof(hit, hit, periods, slots, wait), PERIODS],
  ['zones and slots', fc.oneof(hit, hit, zone, slots, wait), PERIODS],
  ['zones, periods and slots', fc.oneof(hit, hit, zone, periods, slots, wait), []],
])('history: counts each hit once, whatever %s a counter is given meanwhile', async (_, step, summed) => {
  const steps = fc.array(step, { minLength: 5, maxLength: 30 })
  let now = 0
  let names = 0
  let hits = 0
  const { counters } = openTestNth(await freshDatabase(), { now: () => new Date(now) })
  await fc.assert(
    fc.asyncProperty(steps, fc.nat({ max: 40 * DAY_MS }), async (some, after) => {
      const key = { namespace: 'n', name: `c${names++}` }
      const start = Date.parse('2026-10-10T00:00:00Z') + after
      now = start
      await counters.define(key, { periods: PERIODS.map((period) => ({ period })) })
      let total = 0
      for (const step of some) {
        if (step.kind === 'wait') now += step.ms
        else if (step.kind === 'zone') await counters.define(key, { timeZone: step.timeZone })
        else if (step.kind === 'periods')
          await counters.define(key, { periods: step.kept.map((period) => ({ period })) })
        else if (step.kind === 'slots') await counters.define(key, { slots: step.slots })
        else {
          total += step.delta
          hits += 1
          const { valuesIn } = await counters.incrementBy(key, step.delta, { wantsPeriodValues: true })
          const counter = await counters.read(key)
          // A change returns what a read returns.
          for (const { period } of counter.definition?.periods ?? []) {
            expect([period, valuesIn?.[period]]).toEqual([period, await counters.valueIn(counter, period)])
          }
        }
      }
      const counter = await counters.read(key)
      for (const period of summed) {
        // What was counted in another zone may be shown in a period beside.
        const from = new Date(start - 2 * LONGEST_MS[period])
        const to = new Date(now + 2 * LONGEST_MS[period])
        const history = await counters.history(counter, period, { last: 0, from, to })
        const sum = history?.reduce((sum, { value }) => sum + value, 0)
        expect([period, sum]).toEqual([period, total])
      }
    }),
    { numRuns: runSize(15, 40), endOnFailure: true },
  )
  expect(hits).toBeGreaterThan(runSize(30, 100))
})
