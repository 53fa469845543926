import { PERIODS, type Period } from '../core/calendar.ts'
import type { Keeping, TrackedPeriod } from '../core/definition.ts'

/** How periods are numbered in the database. All time is 0. */
export const PERIOD_CODES: Record<Period, number> = { HOUR: 1, DAY: 2, WEEK: 3, MONTH: 4, YEAR: 5 }

/** What is kept, as the database has it written. */
export function keepingIn(timeZone: string, periods: string): Keeping {
  return { timeZone, periods: periods === '' ? [] : periods.split(',').map(trackedIn) }
}

/** Periods as they stand in the database: `HOUR:90,DAY,MONTH@1793491200000`. */
export function periodsText(periods: readonly TrackedPeriod[]): string {
  return periods
    .map(({ period, keepDays, since }) => {
      const days = keepDays === null ? '' : `:${keepDays}`
      return period + days + (since === null ? '' : `@${since}`)
    })
    .join(',')
}

function trackedIn(text: string): TrackedPeriod {
  const [, name, days, since] = /^([A-Z]+)(?::(\d+))?(?:@(-?\d+))?$/.exec(text) ?? []
  const period = PERIODS.find((known) => known === name)
  if (!period) throw new Error(`The database has a period that is written "${text}"`)
  return { period, keepDays: days ? Number(days) : null, since: since ? Number(since) : null }
}
