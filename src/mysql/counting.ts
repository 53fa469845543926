import type { ValueOperation } from '../core/applyOperation.ts'
import type { Definition } from '../core/definition.ts'
import type { CounterRow } from '../core/writer.ts'
import { instant, integer } from './literals.ts'
import { raisedRevision } from './revisions.ts'

/** `starts_at` of the rows of period 0, all time. */
export const BEGINNING = '19700101000000'

/** A row that counts, as a flush names it. */
export interface CountingRow extends CounterRow {
  id: number
  /** Of the definition that it was looked up with. */
  version: number
  /** Of the origin, when it was looked up. */
  incarnation: number
}

/** The rest of the key of a counter's row of all time. */
export function allTime(slot: number): string {
  return `period = 0 and starts_at = ${BEGINNING} and slot = ${integer(slot)}`
}

/** The row of a counter, by the definition of a version. */
export function countingRow(
  { id, version, incarnation }: Pick<CountingRow, 'id' | 'version' | 'incarnation'>,
  definition: Definition,
): CountingRow {
  return { kind: 'counter', key: `counter ${id} ${version}`, id, version, incarnation, definition }
}

/**
 * Adds to a row's value, and has the answer carry the value before: MySQL Cookbook, "single-row sequence
 * generators". One statement, so that nothing comes between reading and writing.
 *
 * `affectedRows` says whether the row was there. Where `insertId` is 0 the value may have been 0, or the table
 * may have a trigger. (The function is unsigned, hence the cast.)
 */
export function addReturningOld(
  { id, version }: CountingRow,
  delta: number,
  { at, raise }: Pick<Marks, 'at' | 'raise'>,
): string {
  return `update counter_value
   set ${marks({ at, raise })},
       value = cast(last_insert_id(value) as signed) + ${integer(delta)}
 where counter_id = ${integer(id)} and ${allTime(0)} and version = ${integer(version)}`
}

/** Locks rows, in the order of their key, and reads what they hold. */
export function lock(ids: readonly number[]): string {
  // Without the index named, a small table is read, and locked, from one end to the other.
  return `select counter_id as id, version, value, if(created_at is null, null, revision) as revision
  from counter_value force index (primary)
 where counter_id in (${ids.map(integer).join(', ')}) and ${allTime(0)}
 order by counter_id
   for update`
}

/** Reads the revisions of rows that this transaction has changed. */
export function readRevisions(ids: readonly number[]): string {
  return `select counter_id as id, revision
  from counter_value force index (primary)
 where counter_id in (${ids.map(integer).join(', ')}) and ${allTime(0)}`
}

/** Does one operation on each of several rows that are locked. */
export function change(ids: readonly number[], operation: ValueOperation, noted: Marks): string {
  const value = operation.kind === 'set' ? integer(operation.to) : `value + ${integer(operation.delta)}`
  return `update counter_value
   set ${marks(noted)},
       value = ${value}
 where counter_id in (${ids.map(integer).join(', ')}) and ${allTime(0)}`
}

/** What a change of a value notes beside it. */
export interface Marks {
  at: Date
  /** By how much it raises the revision. */
  raise: number
  /** The revision that a row begins with which was never changed, if that is known. */
  first?: number | undefined
}

function marks({ at, raise, first }: Marks): string {
  return `${raisedRevision('created_at is null', raise, first)}, ${times(at)}`
}

/** When a value was changed. */
export function times(at: Date): string {
  return `created_at = coalesce(created_at, ${instant(at)}), updated_at = ${instant(at)}`
}
