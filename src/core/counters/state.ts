import { joinNames } from '../../rules/names.ts'
import type { Definition, Retention } from './definition.ts'

export interface CounterKey {
  namespace: string
  name: string
}

export interface CounterState extends CounterKey {
  value: number
  /** Undefined: never written or defined; its namespace's defaults apply. */
  definition: Definition | undefined
  /** When it was first written or defined; null: never. */
  createdAt: Date | null
  /** When its value was last changed; null: never. */
  updatedAt: Date | null
  /** Higher in the newer of two states. */
  revision: number
}

/** A counter, and the part of its definition that a history needs. */
export interface CounterRetention extends CounterKey {
  retention: Retention
  slots: number
}

/** A key as one string. */
export function keyText({ namespace, name }: CounterKey): string {
  return joinNames(namespace, name)
}

/** A counter that was never written or defined. */
export function unwritten({ namespace, name }: CounterKey, revision: number): CounterState {
  return { namespace, name, value: 0, definition: undefined, createdAt: null, updatedAt: null, revision }
}

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
