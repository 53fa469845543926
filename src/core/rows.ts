import type { Definition } from './counters/definition.ts'
import type { SequenceDefinition } from './sequences/definition.ts'

/** A row that operations change. */
export type Row = CounterRow | GroupRow

/** A counter. */
export interface CounterRow {
  kind: 'counter'
  /** Unique per counter and definition. */
  key: string
  definition: Definition
}

/** A sequence group. */
export interface GroupRow {
  kind: 'group'
  /** Unique per sequence group and definition of its sequence. */
  key: string
  /** The same for all sequence groups of the sequence. */
  sequenceKey: string
  /** Name of the sequence group; may be empty. */
  group: string
  definition: SequenceDefinition
}

/** Finds the row behind a key. */
export interface Rows<Key, R> {
  /** The cached row, without a query. */
  known(key: Key): R | undefined
  find(key: Key): Promise<R | undefined>
  /** Creates it if it doesn't exist. */
  findOrMake(key: Key, at: Date): Promise<R>
  /** Drops a row from the cache. */
  forget(key: Key): void
}
