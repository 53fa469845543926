import type { Batch, CounterWork, SequenceGroupWork } from '../../commit/batch.ts'
import type { Claim, EarlierResults, StoredResults } from '../../rules/idempotency.ts'
import type { ColumnWrite, PeriodAddition, PeriodReading } from '../../rules/periods.ts'
import type { Definition } from '../counters/definition.ts'
import type { NumberState, SequenceGroupReading } from '../sequences/state.ts'

/** A connection that flushes, one flush at a time. Its methods, and those of its transactions, never reject. */
export interface Writer {
  /** Prepares the transaction of a batch, without a round trip. */
  begin(batch: Batch): Promise<Transaction | NotApplied>
  close(): Promise<void>
}

/**
 * A transaction: `read`, `write`, `commit`; only `commit` where `fitsOneTrip`. Or `rollBack` instead of `commit`. What is
 * not applied is rolled back.
 */
export interface Transaction {
  readonly kind: 'transaction'
  /**
   * Whether one round trip makes the additions and commits: nothing has to be decided before, and the database is far
   * away. It changes nothing unless all additions are possible.
   */
  readonly fitsOneTrip: boolean
  /** Whether COMMIT was sent, or its text found too large. Then the outcome is that of `commit`. */
  readonly isCommitSent: boolean
  /** The first round trip: begins, makes the coalesced additions, locks and reads. */
  read(): Promise<Reading | NotApplied>
  /** Prepares what `commit` sends. May throw. */
  write(writes: Writes): void
  /** The second round trip: sends writes and COMMIT, before it returns. */
  commit(): Promise<Outcome>
  rollBack(): Promise<void>
}

/** What a flush reads in the database. Rows that don't exist are missing. */
export interface Reading {
  readonly kind: 'read'
  readonly counters: ReadonlyMap<CounterWork, CounterReading>
  readonly sequenceGroups: ReadonlyMap<SequenceGroupWork, SequenceGroupReading>
  /** Results under used keys. */
  readonly earlier: readonly EarlierResults[]
}

/** A counter before its operations. */
export interface CounterReading {
  /** Whether the sum of its operations was added. If it was not, they are applied one by one. */
  readonly isAdded: boolean
  readonly value: number
  /** Where wanted; of some also where not. */
  readonly revision: number | undefined
  /** Its running periods; undefined: not read. */
  readonly periods: readonly PeriodReading[] | undefined
  /** The database's clock, in milliseconds since 1970, if a period is not the running one. */
  readonly now: number
}

/** What a flush writes after its operations are applied. */
export interface Writes {
  readonly counters: readonly { work: CounterWork; write: CounterWrite }[]
  readonly sequenceGroups: readonly { work: SequenceGroupWork; write: NumberState }[]
  /** Results to store under new idempotency keys. */
  readonly toStore: readonly StoredResults[]
  /** Claims without a result, to be removed. */
  readonly toRelease: readonly Claim[]
}

/** The new state of a locked counter. */
export type CounterWrite =
  | 'deleted'
  | {
      previousValue: number
      value: number
      isCounted: boolean
      /** How much the revision rises. */
      raised: number
      columns: readonly ColumnWrite[]
      history: readonly PeriodAddition[]
      /** The new one, if changed. */
      definition: Definition | undefined
    }

export type Outcome =
  /** In one trip: with what was read. */
  | { kind: 'committed'; reading?: Reading }
  | NotApplied
  /** Not known whether it was applied. */
  | { kind: 'unknown'; cause: unknown }

/** Why a transaction was not applied. */
export type NotApplied =
  /** Rolled back in favour of another transaction. */
  | { kind: 'conflict'; cause: unknown }
  /** Another session holds a lock. */
  | { kind: 'locked'; cause: unknown }
  /** The locks of these keys could not be taken at once; other rows are gone. */
  | { kind: 'notLocked'; locked: readonly string[]; gone: readonly string[] }
  /** The database refuses it for good. */
  | { kind: 'fault'; cause: unknown }
  /** A definition would make the total of a running period leave the safe range. */
  | { kind: 'full'; cause: unknown }
  /** Its rows were read from an earlier incarnation of the database. */
  | { kind: 'stale' }
  /** In one trip: not all additions were possible. */
  | { kind: 'unfit' }
  /** An exception of our own, or a text that is too large. */
  | { kind: 'broken'; cause: unknown }
  /** The connection was lost or can't be opened, or the server doesn't accept changes now. */
  | { kind: 'lost'; cause: unknown }
