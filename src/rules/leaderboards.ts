import { calendarOf, HALF_MS, type Period, periodKeyOf } from './calendar.ts'

/** A leaderboard of a namespace: of all time, or of a period in the time zone of each counter. */
export interface Leaderboard {
  namespaceId: number
  periodKey: number
}

/** The period key of the leaderboard by value. */
export const ALL_TIME = 0

/** How many past leaderboards of a period are kept. */
export const PAST_LEADERBOARDS = 12

/** The leaderboards to which a counter's latest totals belong. */
export interface LatestPeriods {
  keys: ReadonlySet<number>
  /** The earliest start of a total that may belong to them, in milliseconds since 1970. */
  from: number
}

/** The current period, and a number of periods before it. */
export function latestPeriods(timeZone: string, period: Period, now: number, past: number): LatestPeriods {
  const calendar = calendarOf(timeZone)
  const keys = new Set<number>()
  let bucket = calendar.bucketAt(period, now)
  for (let count = 0; count <= past; count++) {
    keys.add(periodKeyOf(period, timeZone, new Date(bucket.start)))
    bucket = calendar.bucketAt(period, bucket.start - 1)
  }
  // One more: of an hour that the clock repeats, both have the same key. And half: see `keyOfTotal`.
  return { keys, from: bucket.start - HALF_MS[period] }
}

/**
 * The key of the period to which a total belongs. Unless a period starts with it, it was recorded in another time zone,
 * and its middle decides.
 *
 * @param start in milliseconds since 1970
 */
export function keyOfTotal(timeZone: string, period: Period, start: number): number {
  const isStart = calendarOf(timeZone).bucketAt(period, start).start === start
  return periodKeyOf(period, timeZone, new Date(isStart ? start : start + HALF_MS[period]))
}
