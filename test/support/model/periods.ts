import { afterEach, beforeEach, vi } from 'vitest'
import type { Nth } from '../../../src/repository/nth.ts'

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

export async function valueIn(
  counters: Nth['counters'],
  period: 'HOUR' | 'DAY' | 'WEEK' | 'MONTH' | 'YEAR',
  name = 'c',
) {
  return counters.valueIn(await counters.read({ namespace: 'n', name }), period)
}

export function never(): never {
  throw new Error('There are two')
}
