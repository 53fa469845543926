import type { Definition } from './counters/definition.ts'
import type { SequenceDefinition } from './sequences/definition.ts'

/** A row that operations change. Storage adds to it what its statements need. */
export type Row = CounterRow | SequenceGroupRow

export interface CounterRow {
  kind: 'counter'
  /** Unique per counter and definition. */
  key: string
  definition: Definition
}

export interface SequenceGroupRow {
  kind: 'sequenceGroup'
  /** Unique per sequence group and definition of its sequence. */
  key: string
  /** The same for all sequence groups of the sequence. */
  sequenceKey: string
  /** Name of the sequence group; may be empty. */
  group: string
  definition: SequenceDefinition
}

/** Finds rows by what callers call them. */
export interface Rows<Name, R extends Row> {
  /** The cached row, without a query. */
  cached(name: Name): R | undefined
  load(name: Name): Promise<R | undefined>
  /** Creates it if it doesn't exist. */
  loadOrCreate(name: Name, at: Date): Promise<R>
  /** Drops a row from the cache. */
  forget(name: Name): void
}

/** Whether a row has a key, or is a sequence group of the sequence with that key. */
export function isOf(row: Row, key: string): boolean {
  return row.key === key || (row.kind === 'sequenceGroup' && row.sequenceKey === key)
}
