import { calendarOf, DAY_MS, type Period } from './calendar.ts'

/** A date and hour in some time zone. */
export interface LocalDate {
  year: number
  month: number
  day: number
  hour: number
  /** ISO 8601 week year: the year of the week's Thursday. */
  weekYear: number
  week: number
}

/** The local date and hour of an instant. */
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

/** The period key of sequences that never restart. */
export const NEVER = 0

/**
 * The calendar period of an instant as a number: 2026, 202611, 20261121, 2026112118, and 2026047 for a week. Unique,
 * except for an hour that the clock repeats, which counts as one period.
 */
export function periodKeyOf(period: Period | null, timeZone: string, at: Date): number {
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
