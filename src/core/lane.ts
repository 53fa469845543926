import type { CounterRun } from './batch.ts'
import type { Definition } from './definition.ts'
import type { GroupRun } from './groupRun.ts'
import type { Claim, Earlier, Remembered } from './idempotency.ts'
import type { GroupFound, GroupWrite } from './numberState.ts'
import type { SequenceDefinition } from './sequenceDefinition.ts'

/** What operations are done on. */
export type Row = CounterRow | GroupRow

/** A row that counts. */
export interface CounterRow {
  kind: 'counter'
  /** The same for the same row, as it was defined then, only. */
  key: string
  definition: Definition
}

/** A group that deals numbers. */
export interface GroupRow {
  kind: 'group'
  /** The same for the same group of a sequence, as that was defined then, only. */
  key: string
  /** The same for all groups of the sequence. */
  sequenceKey: string
  /** Its name, which may be empty. */
  group: string
  definition: SequenceDefinition
}

/** Finds the row behind a key. */
export interface Rows<Key, R> {
  /** Without asking the database. */
  known(key: Key): R | undefined
  find(key: Key): Promise<R | undefined>
  /** Makes it where it isn't there, at an instant. */
  findOrMake(key: Key, at: Date): Promise<R>
  /** Says that a row is not there any more. */
  forget(key: Key): void
}

/** One connection that flushes, one flush at a time. */
export interface Lane<R extends Row> {
  flush(flush: Flush<R>): Promise<Outcome>
  close(): Promise<void>
}

/** What goes into one transaction, and what may be taken out of it. */
export interface Flush<R extends Row> extends FlushBody<R> {
  /** Whether to find out first which rows others hold locked, so that nothing waits for more than one lock. */
  isImpatient: boolean
  /**
   * Takes out what is on rows or claims of some keys, which others hold locked or which are gone. Returns the rest;
   * undefined: nothing is left.
   */
  without(keys: Unavailable): FlushBody<R> | undefined
}

/** What goes into one transaction. */
export interface FlushBody<R extends Row> {
  /** One for each counter. */
  counters: readonly CounterRun<R & CounterRow>[]
  /** One for each group. */
  groups: readonly GroupRun<R & GroupRow>[]
  /** One for each idempotency key. */
  claims: readonly Claim[]
  at: Date
  /** Deals the numbers. Returns what is to be written because of them, or `false`: roll back. */
  deal(found: Found): Decision | false
  /** Asked directly before COMMIT is sent; `false`: roll back. */
  mayCommit(): boolean
  /** Whether anybody still waits for it. */
  isAwaited(): boolean
}

/** Keys of rows and claims that a flush can't have. */
export interface Unavailable {
  locked: readonly string[]
  gone: readonly string[]
}

/** What a flush finds in the database. */
export interface Found {
  /** What each counter held before; undefined where there is no such row. */
  values: readonly (number | undefined)[]
  /** What each group has dealt before; undefined where there is no such group. */
  positions: readonly (GroupFound | undefined)[]
  /** What was added before in the running periods of those counters where it is told, in the order of their definitions. */
  periodTotals: readonly (readonly number[] | undefined)[]
  /** The revision before of those counters where it is asked, and of some others. */
  revisions: readonly (number | undefined)[]
  /** What was done under those of the keys that were used before. */
  remembered: readonly Earlier[]
}

/** What a flush is to write when its numbers are dealt. */
export interface Decision {
  /** What is to become of each counter; undefined: nothing more. */
  writes: readonly (Write | undefined)[]
  /** The same of each group. */
  groupWrites: readonly (GroupWrite | undefined)[]
  /** What is to be added in the running periods of each counter. */
  added: readonly bigint[]
  /** What was done under the keys that are used for the first time. */
  remember: readonly Remembered[]
  /** Claims under which nothing was done. */
  forget: readonly Claim[]
}

/** What a row that was locked is to be; `definition`: the new one, if it has one. */
export type Write =
  | 'deleted'
  | { value: number; isCounted: boolean; raised: number; definition: Definition | undefined }

export type Outcome =
  | { kind: 'committed' }
  /** Rolled back as `deal` or `mayCommit` wished. */
  | { kind: 'withdrawn' }
  /**
   * Certainly not done. `culprit` is the key of the row or claim that failed, if one did: locked (`isLocked`), or
   * refused for good (`isFault`). `isFull`: what was to be added in a period, without a look at it, would leave the
   * safe range.
   */
  | {
      kind: 'failed'
      cause: unknown
      culprit?: string | undefined
      isLocked?: boolean
      isFault?: boolean
      isFull?: boolean
    }
  /** Certainly not done: its rows were read from another database, or an earlier state of it. */
  | { kind: 'stale' }
  /** Certainly not done, for an exception of Nth's own in making, writing or reading it. */
  | { kind: 'broken'; cause: unknown }
  /** Nobody can say whether it was done. */
  | { kind: 'unknown'; cause: unknown }
