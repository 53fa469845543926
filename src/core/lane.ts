import type { Run } from './batch.ts'
import type { Definition } from './definition.ts'
import type { Claim, Remembered } from './idempotency.ts'

/** A row that counts. */
export interface Row {
  /** The same for the same row, as it was defined then, only. */
  key: string
  definition: Definition
}

/** Finds the row behind a key. */
export interface Rows<Key, R extends Row> {
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

/** What goes into one transaction. */
export interface Flush<R extends Row> {
  /** One for each row. */
  runs: readonly Run<R>[]
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

/** What a flush finds in the database. */
export interface Found {
  /** What each run's row held before; undefined where there is no such row. */
  values: readonly (number | undefined)[]
  /** What was added before in the running periods of those runs whose tallies are told, in the order of their definitions. */
  tallies: readonly (readonly number[] | undefined)[]
  /** What was done under those of the keys that were used before. */
  remembered: readonly Remembered[]
}

/** What a flush is to write when its numbers are dealt. */
export interface Decision {
  /** What is to become of each run's row; undefined: nothing more. */
  writes: readonly (Write | undefined)[]
  /** What is to be added in the running periods of each run. */
  added: readonly bigint[]
  /** What was done under the keys that are used for the first time. */
  remember: readonly Remembered[]
  /** Claims under which nothing was done. */
  forget: readonly Claim[]
}

/** What a row that was locked is to be; `definition`: the new one, if it has one. */
export type Write = 'deleted' | { value: number; isCounted: boolean; definition: Definition | undefined }

export type Outcome =
  | { kind: 'committed' }
  /** Rolled back as `deal` or `mayCommit` wished. */
  | { kind: 'withdrawn' }
  /**
   * Certainly not done. `culprit` is the key of the row or claim that failed, if one did: locked, or refused for
   * good (`isFault`). `isFull`: what was to be added in a period, without a look at it, would leave the safe range.
   */
  | { kind: 'failed'; cause: unknown; culprit?: string; isFault?: boolean; isFull?: boolean }
  /** Nobody can say whether it was done. */
  | { kind: 'unknown'; cause: unknown }
