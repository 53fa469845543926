import { calendarOf, type Period, periodKeyOf } from './calendar.ts'
import type { CounterState, Page } from './counter.ts'

/** A leaderboard of a namespace: of all time, or of a period in the time zone of each counter. */
export interface Leaderboard {
  namespaceId: number
  periodKey: number
}

export interface LeaderboardPage extends Page<SortKey> {
  order: LeaderboardOrder
  /** The period of the leaderboard, of which only values are sorted. Default: of all time. */
  periodKey?: number | undefined
}

/** Ties are ordered by creation: newest first in descending orders, oldest first in ascending ones. */
export type LeaderboardOrder = 'VALUE_DESC' | 'VALUE_ASC' | 'UPDATED_AT_DESC'

/** What a leaderboard is sorted by: a value, or an instant in milliseconds since 1970; then the counter's id. */
export interface SortKey {
  sortedBy: number
  id: number
}

/** A counter as it is now, with its place in the leaderboard. */
export interface LeaderboardEntry extends CounterState {
  sortKey: SortKey
  leaderboard: Leaderboard
  /** The value on the leaderboard, which may be a second older. */
  listedValue: number
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
