import type { Claim, EarlierResults, StoredResults } from '../idempotency.ts'
import type { NumberState, SequenceGroupFound } from '../sequences/state.ts'
import type { CounterFound, CounterRun, CounterWrite } from './counterRun.ts'
import type { SequenceRun } from './sequenceRun.ts'

/** A connection that flushes, one flush at a time. */
export interface Writer {
  /** Never rejects. */
  flush(flush: Flush): Promise<Outcome>
  close(): Promise<void>
}

/** A transaction: what it touches, and how what it finds is changed. */
export interface Flush {
  /** One for each counter. */
  counters: readonly CounterRun[]
  /** One for each sequence group. */
  sequenceGroups: readonly SequenceRun[]
  /** One for each idempotency key. */
  claims: readonly Claim[]
  at: Date
  /** Whether to try all locks without waiting first, so that no call waits for more than one lock. */
  isImpatient: boolean
  /**
   * Whether COMMIT may be sent with the additions, before they are known to have been possible. While that is in flight,
   * the outcome is unknown.
   */
  isOptimistic: boolean
  /** Aborted when no caller waits for it any more. */
  awaited: AbortSignal
  /** Applies the operations to what was found. `withdraw`: roll back. Changes nothing else, so it may follow COMMIT. */
  decide(found: Found): Decision | 'withdraw'
  /** Called directly before COMMIT is sent, with or without other statements. False: a call was answered, so roll back. */
  commit(): boolean
}

/** What a flush finds in the database. Rows that don't exist are missing. */
export interface Found {
  counters: ReadonlyMap<CounterRun, CounterFound>
  sequenceGroups: ReadonlyMap<SequenceRun, SequenceGroupFound>
  earlier: readonly EarlierResults[]
}

/** What a flush writes after its operations are applied. */
export interface Decision {
  counters: readonly { run: CounterRun; write: CounterWrite }[]
  sequenceGroups: readonly { run: SequenceRun; write: NumberState }[]
  /** Results to store under new idempotency keys. */
  toStore: readonly StoredResults[]
  /** Claims without a result, to be removed. */
  toRelease: readonly Claim[]
}

export type Outcome =
  | { kind: 'committed' }
  /** Rolled back because of `decide` or `commit`, or because an addition of an optimistic flush was not possible. */
  | { kind: 'withdrawn' }
  /** Not applied: these keys of rows and claims are locked by another session, or gone. */
  | { kind: 'unavailable'; locked: readonly string[]; gone: readonly string[] }
  | Failure
  /** Not applied: its rows were read from an earlier incarnation of the database. */
  | { kind: 'stale' }
  /** Not applied, because of an exception of our own. */
  | { kind: 'broken'; cause: unknown }
  /** Not known whether it was applied. */
  | { kind: 'unknown'; cause: unknown }

/** A flush that was not applied. */
export interface Failure {
  kind: 'failed'
  cause: unknown
  /** The row or claim that caused it, if known. */
  failingKey?: string | undefined
  /** Another session holds a lock. */
  isLocked?: boolean
  /** Rolled back in favour of another transaction. */
  isConflict?: boolean
  /** Refused for good. */
  isFault?: boolean
  /** A definition would make the total of a running period leave the safe range. */
  isFull?: boolean
}
