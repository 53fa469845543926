import { Temporal } from 'temporal-polyfill'
import { afterEach, beforeEach, vi } from 'vitest'
import type { Nth } from '../../../src/repository/nth.ts'
import type { Period } from '../../../src/rules/calendar.ts'

export const key = { namespace: 'n', name: 'c' }
export const withPeriodValues = { wantsPeriodValues: true }

/** A clock that is turned by hand. */
export function turnedClock(at: string) {
  const clock = { at: Date.parse(at), now: () => new Date(clock.at) }
  return clock
}

/** Stops the clock of this process during each test of a file: no hour, day, month or year begins meanwhile. */
export function stopClock(): void {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'] }))
  afterEach(() => void vi.useRealTimers())
}

/** A clock on which an hour lasts 20 ms. */
export function racingClock(): () => Date {
  const begun = performance.now()
  return () => new Date(Date.UTC(2025, 0, 1) + (performance.now() - begun) * 180_000)
}

export async function valueIn(counters: Nth['counters'], period: Period, name = 'c') {
  return counters.valueIn(await counters.read({ namespace: 'n', name }), period)
}

/** Names the period that an instant is in, by what a calendar shows there: independently of the code under test. */
export function periodNameAt(period: Period, timeZone: string, at: number): string {
  const date = Temporal.Instant.fromEpochMilliseconds(at).toZonedDateTimeISO(timeZone)
  if (period === 'WEEK') return `${date.yearOfWeek} ${date.weekOfYear}`
  const length = { YEAR: 4, MONTH: 7, DAY: 10, HOUR: 13 }[period]
  return date.toPlainDateTime().toString().slice(0, length)
}

export function never(): never {
  throw new Error('There are two')
}
