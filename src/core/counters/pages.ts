import type { CounterState } from './state.ts'

/** Bounds of a page in an ordered list. */
export interface Page<Position> {
  /** Maximum length. With `fromEnd`, counted and listed from the end. */
  limit: number
  fromEnd: boolean
  /** Only what comes after this one. */
  after?: Position | undefined
  /** Only what comes before this one. */
  before?: Position | undefined
}

/** Ordered by the UTF-8 bytes of the names. */
export interface PageByName extends Page<string> {
  prefix: string
}

export interface LeaderboardPage extends Page<SortKey> {
  order: LeaderboardOrder
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
  /** The value it is sorted by, which may be a second older. */
  listedValue: number
}
