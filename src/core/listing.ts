import type { CounterState } from './counters.ts'

/** A page of a namespace's counters. */
interface Page {
  /** At most so many, counted from the end if `fromEnd`; then also listed from the end. */
  limit: number
  fromEnd: boolean
}

/** In the order of the names' bytes in UTF-8. */
export interface PageByName extends Page {
  prefix: string
  /** Only names after this one. */
  after?: string | undefined
  /** Only names before this one. */
  before?: string | undefined
}

export interface PageByRank extends Page {
  order: RankOrder
  /** Only what comes after this place. */
  after?: Rank | undefined
  /** Only what comes before this place. */
  before?: Rank | undefined
}

/** Of those with the same value or instant, the order is that of their making, or its reverse. */
export type RankOrder = 'VALUE_DESC' | 'VALUE_ASC' | 'UPDATED_AT_DESC'

/** A place in an order: what counts there (a value, or an instant in milliseconds), and which of the same it is. */
export interface Rank {
  sortedBy: number
  id: number
}

/** A counter as it is now, and where a list has it. */
export interface RankedCounter extends CounterState {
  rank: Rank
  /** Its value in the list, which may be a second older. */
  listedValue: number
}
