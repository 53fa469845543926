import { calendarOf, type Period } from './calendar.ts'

/** What the calendar and the clock on the wall show. */
export interface LocalDate {
  year: number
  month: number
  day: number
  hour: number
  /** The year that the week belongs to: that of its Thursday (ISO 8601). */
  weekYear: number
  week: number
}

const DAY_MS = 86_400_000

/** What the calendar and the clock show in a time zone. */
export function localDate(timeZone: string, at: Date): LocalDate {
  const clock = new Date(calendarOf(timeZone).clockAt(at.getTime()))
  const year = clock.getUTCFullYear()
  const [month, day] = [clock.getUTCMonth() + 1, clock.getUTCDate()]
  const sinceMonday = (clock.getUTCDay() + 6) % 7
  const thursday = Date.UTC(year, month - 1, day + 3 - sinceMonday)
  const weekYear = new Date(thursday).getUTCFullYear()
  const week = 1 + Math.floor((thursday - Date.UTC(weekYear, 0, 1)) / (7 * DAY_MS))
  return { year, month, day, hour: clock.getUTCHours(), weekYear, week }
}

/** The label of what never begins anew. */
export const NEVER = 0

/**
 * Names the calendar period that an instant is in by its date, as a number: 2026, 202611, 20261121, 2026112118, and
 * 2026047 for a week. No two periods have the same, but an hour that the clock shows twice, which so goes on.
 */
export function labelOf(period: Period | null, timeZone: string, at: Date): number {
  if (period === null) return NEVER
  const { year, month, day, hour, weekYear, week } = localDate(timeZone, at)
  switch (period) {
    case 'YEAR':
      return year
    case 'MONTH':
      return year * 100 + month
    case 'WEEK':
      return weekYear * 1000 + week
    case 'DAY':
      return (year * 100 + month) * 100 + day
    case 'HOUR':
      return ((year * 100 + month) * 100 + day) * 100 + hour
  }
}
