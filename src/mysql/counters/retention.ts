import type { TrackedPeriod } from '../../core/counters/definition.ts'
import { PERIODS, type Period } from '../../core/time/calendar.ts'

/** Period codes in the database. 0 is all time. */
export const PERIOD_CODES: Record<Period, number> = { HOUR: 1, DAY: 2, WEEK: 3, MONTH: 4, YEAR: 5 }

/** Parses the column `periods`. */
export function periodsIn(text: string): TrackedPeriod[] {
  if (text === '') return []
  return text.split(',').map((tracked) => {
    const [, name, days, since] = /^([A-Z]+)(?::(\d+))?(?:@(-?\d+))?$/.exec(tracked) ?? []
    const period = PERIODS.find((known) => known === name)
    if (!period) throw new Error(`Unknown period in the database: "${tracked}"`)
    return { period, keepDays: days ? Number(days) : null, since: since ? Number(since) : null }
  })
}

/** The column `periods`: `HOUR:90,DAY,MONTH@1793491200000`. */
export function periodsText(periods: readonly TrackedPeriod[]): string {
  return periods
    .map(({ period, keepDays, since }) => {
      const days = keepDays === null ? '' : `:${keepDays}`
      return period + days + (since === null ? '' : `@${since}`)
    })
    .join(',')
}
