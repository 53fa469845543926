import { calendarOf, type Period, periodKeyOf } from './calendar.ts'

/** A leaderboard of a namespace: of all time, or of a period in the time zone of each counter. */
export interface Leaderboard {
  namespaceId: number
  periodKey: number
}

/** The period key of the leaderboard by value. */
export const ALL_TIME = 0

/** How many past leaderboards of a period are kept. */
export const PAST_LEADERBOARDS = 12

/** The keys of the current period, and of a number of periods before it. */
export function latestKeys(timeZone: string, period: Period, now: number, past: number): number[] {
  const calendar = calendarOf(timeZone)
  const keys = new Set<number>()
  for (let at = now; keys.size <= past; at = calendar.bucketAt(period, at).start - 1)
    keys.add(periodKeyOf(period, timeZone, new Date(at)))
  return [...keys]
}
