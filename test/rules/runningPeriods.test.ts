// @module-tag random
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { addInPeriod, type PeriodAddition, type PeriodReading, totalOf } from '../../src/rules/periods.ts'
import { runSize } from '../support/random.ts'

const HOUR_MS = 3_600_000

/** What one addition meets: a slot, the hour by the clock of its process, and the hour by the database's. */
const additions = fc.array(
  fc.record({
    slot: fc.nat({ max: 2 }),
    hour: fc.nat({ max: 4 }),
    now: fc.nat({ max: 4 }),
    added: fc.bigInt({ min: -5n, max: 5n }),
    isClosed: fc.boolean(),
  }),
  { minLength: 1, maxLength: 30 },
)

it('addInPeriod: keeps every total as the history row and the columns with its start, whatever the clocks show', () => {
  fc.assert(
    fc.property(fc.boolean(), additions, (hasSlots, all) => {
      const columns = new Map<number, PeriodAddition>()
      const history = new Map<number, bigint>()
      const expected = new Map<number, bigint>()
      const addToHistory = ({ start, added }: PeriodAddition) =>
        history.set(start, (history.get(start) ?? 0n) + added)
      const inSlots = (start: number, but?: number) =>
        [...columns].reduce(
          (sum, [slot, one]) => sum + (slot !== but && one.start === start ? one.added : 0n),
          0n,
        )
      for (const { slot: drawn, hour, now, added, isClosed } of all) {
        const slot = hasSlots ? drawn : 0
        const start = hour * HOUR_MS
        const inHistory = history.get(start) ?? 0n
        const found: PeriodReading = {
          period: 'HOUR',
          start,
          columns: columns.get(slot),
          inHistory: hasSlots ? 0n : inHistory,
          elsewhere: hasSlots ? inHistory + inSlots(start, slot) : 0n,
        }
        // Without slots, the row alone shows the total while it has the running period.
        if (!hasSlots && found.columns?.start === start) found.inHistory = 0n
        expect(totalOf(found)).toBe(Number(expected.get(start) ?? 0n))
        const written = addInPeriod(found, added, now * HOUR_MS)
        const { column } = written
        const before = columns.get(slot)
        if (column && !column.isOpened) expect(before?.start).toBe(start)
        if (column)
          columns.set(slot, {
            period: 'HOUR',
            start,
            added: column.isOpened ? column.added : (before?.added ?? 0n) + column.added,
          })
        written.history.forEach(addToHistory)
        expected.set(start, (expected.get(start) ?? 0n) + added)
        // As a new definition does.
        if (isClosed) {
          for (const one of columns.values()) addToHistory(one)
          columns.clear()
        }
        for (const [start, total] of expected) expect((history.get(start) ?? 0n) + inSlots(start)).toBe(total)
      }
    }),
    { numRuns: runSize(500, 2000) },
  )
})

/** The start of the running period, and the time of the database. */
const HOUR = 3 * HOUR_MS

const found = (start: number | undefined, inHistory = 0n): PeriodReading => ({
  period: 'HOUR',
  start: HOUR,
  columns: start === undefined ? undefined : { period: 'HOUR', start, added: 7n },
  inHistory,
  elsewhere: 0n,
})
const opened = (added: bigint) => ({ period: 'HOUR', start: HOUR, added, isOpened: true })
const moved = (start: number, added: bigint) => ({ period: 'HOUR', start, added })

it.each([
  ['adds to the running period', found(3 * HOUR_MS), { ...opened(1n), isOpened: false }, []],
  ['begins with the first addition', found(undefined), opened(1n), []],
  ['takes the history row of a new period', found(undefined, 5n), opened(6n), [moved(3 * HOUR_MS, -5n)]],
  ['moves what has ended to the history', found(2 * HOUR_MS), opened(1n), [moved(2 * HOUR_MS, 7n)]],
  ['adds to the history behind another clock', found(HOUR + 300_000), undefined, [moved(3 * HOUR_MS, 1n)]],
  ['ends what began too far ahead', found(HOUR + 300_001), opened(1n), [moved(HOUR + 300_001, 7n)]],
])('addInPeriod: %s', (_, before, column, history) => {
  expect(addInPeriod(before, 1n, HOUR)).toEqual({ column, history })
})
