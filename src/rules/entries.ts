import type { Period } from './calendar.ts'
import type { CounterKey, Definition, Retention } from './counter.ts'
import type { Claim } from './idempotency.ts'
import type { ApiKey } from './rights.ts'
import type { ReservationState, SequenceGroupKey, SequenceKey } from './sequence.ts'
import type { PastFormat, SequenceDefinition } from './sequenceDefinition.ts'

/**
 * What an export has a line for. Everything is identified by its names, a reservation by its token, keys by their hash:
 * these are in backups only.
 */
export type Entry =
  | NamespaceEntry
  | CounterEntry
  | CounterHistoryEntry
  | SequenceEntry
  | SequenceGroupEntry
  | SequenceGroupPeriodsEntry
  | ReservationEntry
  | ApiKeyEntry
  | IdempotencyKeyEntry

export type EntryType = Entry['type']

/** The defaults of a namespace. */
export interface NamespaceEntry extends Retention {
  type: 'namespace'
  name: string
}

/** What was added to a counter in a period. `start`: in seconds since 1970. May be beyond the safe range. */
export interface StoredPeriodTotal {
  period: Period
  start: number
  value: bigint
}

/** A counter. From other systems only its value is known: undefined parts stay as they are. */
export interface CounterEntry extends CounterKey {
  type: 'counter'
  value: number
  definition?: Definition | undefined
  createdAt?: Date | undefined
  updatedAt?: Date | null | undefined
  history: readonly StoredPeriodTotal[]
}

/** More totals of a counter whose line would be too long with all. `timeZone`: that of its definition. */
export interface CounterHistoryEntry extends CounterKey {
  type: 'counterHistory'
  timeZone: string
  history: readonly StoredPeriodTotal[]
}

export interface SequenceEntry extends SequenceKey {
  type: 'sequence'
  definition: SequenceDefinition
  /** Whether it was ever defined. */
  isDefined: boolean
  formatHistory: readonly PastFormat[]
  createdAt: Date
}

/** Position of a sequence group in a period, whose key is 0 if the sequence never restarts. */
export interface GroupPeriod {
  period: number
  /** The last number issued; null: none yet. */
  lastValue: number | null
  /** The next number, if it doesn't follow from the last. */
  nextValue: number | null
  generation: number
  createdAt?: Date | null | undefined
  updatedAt?: Date | null | undefined
}

/** The latest numbers of a sequence group, and with which definition they were issued. */
export interface LatestNumbers {
  period: number
  /** Also in `periods`, which a reader of a single line may lack. An import doesn't need it. */
  lastValue?: number | null | undefined
  /** Undefined: the sequence's own, as are the others. */
  format?: string | null | undefined
  timeZone?: string | undefined
  /** Whether the sequence was not redefined since. */
  isCurrent: boolean
}

export interface SequenceGroupEntry extends SequenceGroupKey {
  type: 'sequenceGroup'
  /** Null: none issued yet. */
  latest: LatestNumbers | null
  periods: readonly GroupPeriod[]
}

/** More periods of a sequence group whose line would be too long with all. */
export interface SequenceGroupPeriodsEntry extends SequenceGroupKey {
  type: 'sequenceGroupPeriods'
  periods: readonly GroupPeriod[]
}

export interface ReservationEntry extends SequenceGroupKey {
  type: 'reservation'
  token: string
  period: number
  generation: number
  value: number
  formatted: string
  state: ReservationState
  isFree: boolean
  expiresAt: Date
  closedAt: Date | null
}

/** An API key, without its secret. */
export interface ApiKeyEntry extends ApiKey {
  type: 'apiKey'
}

/** The results stored under an idempotency key, as JSON values. `claimedAt`: by the database's clock. */
export interface IdempotencyKeyEntry extends Pick<Claim, 'hash' | 'fingerprint'> {
  type: 'idempotencyKey'
  appliedAt: Date
  claimedAt: Date
  results: readonly unknown[]
}

/** Format of the lines. A file of a later one is refused. */
export const FORMAT_VERSION = 1

/** Maximum totals of a counter, or periods of a sequence group, in one line. */
export const MAX_PARTS = 1000

/** An entry, and where it is in its file. */
export interface Placed {
  line: number
  entry: Entry
}
