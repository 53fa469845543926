import type { Run } from './runs.ts'

/** A row that counts. */
export interface Row {
  /** The same for the same row only. */
  key: string
}

/** Finds the row behind a key, making it if needed. */
export interface Rows<Key, R extends Row> {
  /** Without asking the database. */
  known(key: Key): R | undefined
  /** `at`: when it was made, if it has to be. */
  find(key: Key, at: Date): Promise<R>
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
  at: Date
  /**
   * Deals the numbers, from what each run's row held before; undefined where there is no such row. Says what
   * the rows of careful runs are to hold (undefined: as before), or `false`: roll back.
   */
  deal(previous: readonly (number | undefined)[]): (number | undefined)[] | false
  /** Asked directly before COMMIT is sent; `false`: roll back. */
  mayCommit(): boolean
  /** Whether anybody still waits for it. */
  isAwaited(): boolean
}

export type Outcome =
  | { kind: 'committed' }
  /** Rolled back as `deal` or `mayCommit` wished. */
  | { kind: 'withdrawn' }
  /** Certainly not done. `culprit` is the index of the run that failed, if one did: locked, or refused for good (`isFault`). */
  | { kind: 'failed'; cause: unknown; culprit?: number; isFault?: boolean }
  /** Nobody can say whether it was done. */
  | { kind: 'unknown'; cause: unknown }
