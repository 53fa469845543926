import { calendarOf, DAY_MS, type Period } from './calendar.ts'

export type LocalDate = ReturnType<typeof localDate>

/** The local date and hour of an instant. `weekYear`: the ISO 8601 week year, that of the week's Thursday. */
export function localDate(timeZone: string, at: Date) {
  const clock = new Date(calendarOf(timeZone).clockAt(at.getTime()))
  const year = clock.getUTCFullYear()
  const [month, day] = [clock.getUTCMonth() + 1, clock.getUTCDate()]
  const sinceMonday = (clock.getUTCDay() + 6) % 7
  const thursday = Date.UTC(year, month - 1, day + 3 - sinceMonday)
  const weekYear = new Date(thursday).getUTCFullYear()
  const week = 1 + Math.floor((thursday - Date.UTC(weekYear, 0, 1)) / (7 * DAY_MS))
  return { year, month, day, hour: clock.getUTCHours(), weekYear, week }
}

/**
 * The calendar period of an instant as a number: 2026, 202611, 20261121, 2026112118, and 2026047 for a week. Unique,
 * except for an hour that the clock repeats, which counts as one period. 0: without periods.
 */
export function periodKeyOf(period: Period | null, timeZone: string, at: Date): number {
  if (period === null) return 0
  const { year, month, day, hour, weekYear, week } = localDate(timeZone, at)
  const inMonth = year * 100 + month
  const onDay = inMonth * 100 + day
  const keys = {
    YEAR: year,
    MONTH: inMonth,
    WEEK: weekYear * 1000 + week,
    DAY: onDay,
    HOUR: onDay * 100 + hour,
  }
  return keys[period]
}

/** Digits of the keys of each period. */
const DIGITS: Record<Period, number> = { HOUR: 10, DAY: 8, WEEK: 7, MONTH: 6, YEAR: 4 }

/** Whether a key can be that of a period of this length; null: without periods. */
export function isPeriodKey(key: number, period: Period | null): boolean {
  return period === null ? key === 0 : String(key).length === DIGITS[period]
}
