import type { Counters } from '../../src/core/counters/counters.ts'
import { known } from './known.ts'

export const key = { namespace: 'n', name: 'c' }
export const told = { wantsPeriodValues: true }

/** A clock that is turned by hand. */
export function turnedClock(at: string) {
  const clock = { at: Date.parse(at), now: () => new Date(clock.at) }
  return clock
}

export async function valueIn(
  counters: Counters,
  period: 'HOUR' | 'DAY' | 'WEEK' | 'MONTH' | 'YEAR',
  name = 'c',
) {
  return counters.valueIn(await known(counters, { namespace: 'n', name }), period)
}

export function never(): never {
  throw new Error('There are two')
}
