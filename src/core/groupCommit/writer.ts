import type { Definition } from '../counters/definition.ts'
import type { Claim, EarlierResults, StoredResults } from '../idempotency.ts'
import type { CounterRow, GroupRow, Row } from '../rows.ts'
import type { GroupFound, GroupWrite } from '../sequences/state.ts'
import type { CounterRun } from './batch.ts'
import type { GroupRun } from './sequenceRun.ts'

/** A connection that flushes, one flush at a time. */
export interface Writer<R extends Row> {
  flush(flush: Flush<R>): Promise<Outcome>
  close(): Promise<void>
}

/** A transaction, from which unavailable rows may be removed. */
export interface Flush<R extends Row> extends FlushBody<R> {
  /** Whether to find locked rows first, so that no call waits for more than one lock. */
  isImpatient: boolean
  /**
   * Removes the calls on rows or claims that are locked by others or gone. Returns the rest; undefined: nothing is left.
   */
  without(keys: Unavailable): FlushBody<R> | undefined
}

/** The content of a transaction. */
export interface FlushBody<R extends Row> {
  /** One for each counter. */
  counters: readonly CounterRun<R & CounterRow>[]
  /** One for each sequence group. */
  groups: readonly GroupRun<R & GroupRow>[]
  /** One for each idempotency key. */
  claims: readonly Claim[]
  at: Date
  /** Applies the operations. Returns what to write, or `false`: roll back. */
  decide(found: Found): Decision | false
  /** Called directly before COMMIT is sent. `false`: roll back. */
  mayCommit(): boolean
  /** Whether a caller still waits for it. */
  isAwaited(): boolean
}

/** Keys of rows and claims that a flush can't lock. */
export interface Unavailable {
  locked: readonly string[]
  gone: readonly string[]
}

/** What a flush finds in the database. */
export interface Found {
  /** The value of each counter before; undefined: the row doesn't exist. */
  values: readonly (number | undefined)[]
  /** The state of each sequence group before; undefined: it doesn't exist. */
  positions: readonly (GroupFound | undefined)[]
  /** The period totals of counters before, where wanted, in the order of their definitions. */
  periodTotals: readonly (readonly number[] | undefined)[]
  /** The revision of counters before, where wanted; of some also where not. */
  revisions: readonly (number | undefined)[]
  /** Earlier results under the idempotency keys. */
  earlier: readonly EarlierResults[]
}

/** What a flush writes after its operations are applied. */
export interface Decision {
  /** The write of each counter; undefined: none. */
  writes: readonly (Write | undefined)[]
  /** The write of each sequence group; undefined: none. */
  groupWrites: readonly (GroupWrite | undefined)[]
  /** What to add to the period totals of each counter. */
  added: readonly bigint[]
  /** Results to store under new idempotency keys. */
  toStore: readonly StoredResults[]
  /** Claims without a result, to be removed. */
  toRelease: readonly Claim[]
}

/** The new state of a locked row. `definition`: the new one, if changed. */
export type Write =
  | 'deleted'
  | { value: number; isCounted: boolean; raised: number; definition: Definition | undefined }

export type Outcome =
  | { kind: 'committed' }
  /** Rolled back because `decide` or `mayCommit` returned false. */
  | { kind: 'withdrawn' }
  /**
   * Not applied. `failingKey`: the row or claim that caused it, if known. `isLocked`: another session holds a lock.
   * `isFault`: refused for good. `isFull`: a period total that was not read would leave the safe range.
   */
  | {
      kind: 'failed'
      cause: unknown
      failingKey?: string | undefined
      isLocked?: boolean
      isFault?: boolean
      isFull?: boolean
    }
  /** Not applied: its rows were read from an earlier incarnation of the database. */
  | { kind: 'stale' }
  /** Not applied, because of an exception of our own. */
  | { kind: 'broken'; cause: unknown }
  /** Not known whether it was applied. */
  | { kind: 'unknown'; cause: unknown }
