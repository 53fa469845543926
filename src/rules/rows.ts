import type { Definition } from './counter.ts'
import type { SequenceDefinition } from './sequenceDefinition.ts'

/** A row that operations change, as a flush identifies it. */
export type Row = CounterRow | SequenceGroupRow

interface CachedRow {
  id: number
  /** Version of the definition that was read with it. */
  version: number
  /** Incarnation of the database when the row was read. */
  incarnation: number
  /** With it the counter's or sequence's subjects are hashed, in hexadecimal digits; undefined: there is none yet. */
  salt: string | undefined
}

export interface CounterRow extends CachedRow {
  kind: 'counter'
  namespaceId: number
  definition: Definition
  /** When all subjects were forgotten, in seconds since 1970, and later than each time before; 0: never. */
  forgottenSecond: number
  /** Instant of the latest flush of this process that changed it, in milliseconds since 1970. */
  changedAt: number
}

export interface SequenceGroupRow extends CachedRow {
  kind: 'sequenceGroup'
  sequenceId: number
  /** Random, set on creation. If a failover reuses the id for another sequence group, this differs. */
  identity: number
  /** Name of the sequence group; may be empty. */
  group: string
  definition: SequenceDefinition
  /** Key of the period whose row is known to exist and is stored as the latest, with this definition. */
  issuedIn: number | undefined
}

/**
 * A text that is unique per counter, or sequence group, with its version and incarnation. It isn't kept in the row: only
 * failures need it.
 */
export function rowKey({ kind, id, version, incarnation }: Row): string {
  return `${kind} ${id} ${version} ${incarnation}`
}

/** Whether two rows of one name have the same key. */
export function isSameRow(a: Row, b: Row): boolean {
  return a.id === b.id && a.version === b.version && a.incarnation === b.incarnation
}

/** Finds rows by what callers call them. */
export interface Rows<Name, R extends Row> {
  /** The cached row, without a query. */
  cached(name: Name): R | undefined
  load(name: Name): Promise<R | undefined>
  loadOrCreate(name: Name, at: Date): Promise<R>
  /** Drops a row from the cache. */
  forget(name: Name): void
}
