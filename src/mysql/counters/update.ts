import type { ValueOperation } from '../../core/counters/apply.ts'
import type { CounterRow } from '../../core/rows.ts'
import { instant, integer, list } from '../literals.ts'
import { raisedRevision } from '../revisions.ts'

/** `starts_at` of the rows of period 0, all time. */
export const BEGINNING = '19700101000000'

/** A counter's row, as a flush identifies it. */
export interface CounterRecord extends CounterRow {
  id: number
  /** Version of the definition that was read with it. */
  version: number
  /** Incarnation of the database when the row was read. */
  incarnation: number
}

/** The rest of the primary key of a counter's all-time row, or of those of all slots. */
export function allTime(slot?: number): string {
  const ofAll = `period = 0 and starts_at = ${BEGINNING}`
  return slot === undefined ? ofAll : `${ofAll} and slot = ${integer(slot)}`
}

/**
 * Adds to a row's value, and returns the value before in the answer: MySQL Cookbook, "single-row sequence generators".
 * One statement, so that nothing comes between reading and writing. `affectedRows` shows whether the row exists. If
 * `insertId` is 0, the value may have been 0, or the table may have a trigger. (The function is unsigned, hence the cast.)
 */
export function addReturningOld({ id, version }: CounterRecord, delta: number, noted: Marks): string {
  return `update counter_value
   set ${marks(noted)},
       value = cast(last_insert_id(value) as signed) + ${integer(delta)}
 where counter_id = ${integer(id)} and ${allTime(0)} and version = ${integer(version)}`
}

/** Locks rows in the order of their primary key, and reads their values. */
export function lock(ids: readonly number[]): string {
  // Without `force index`, a server may scan, and lock, all of a small table.
  return `select counter_id as id, version, value, if(created_at is null, null, revision) as revision
  from counter_value force index (primary)
 where counter_id in (${list(ids, integer)}) and ${allTime(0)}
 order by counter_id
   for update`
}

/** Reads the revisions of rows that this transaction has changed. */
export function readRevisions(ids: readonly number[]): string {
  return `select counter_id as id, revision
  from counter_value force index (primary)
 where counter_id in (${list(ids, integer)}) and ${allTime(0)}`
}

/** Applies one operation to each of several locked rows. */
export function change(ids: readonly number[], operation: ValueOperation, noted: Marks): string {
  const value = operation.kind === 'set' ? integer(operation.to) : `value + ${integer(operation.delta)}`
  return `update counter_value
   set ${marks(noted)},
       value = ${value}
 where counter_id in (${list(ids, integer)}) and ${allTime(0)}`
}

/** What a change of a value also sets. */
export interface Marks {
  at: Date
  /** Increase of the revision. */
  raise: number
  /** Initial revision of a row that was never changed, if known. */
  first?: number | undefined
}

function marks({ at, raise, first }: Marks): string {
  return `${raisedRevision('created_at is null', raise, first)}, ${times(at)}`
}

/** The times set by a change. */
export function times(at: Date): string {
  return `created_at = coalesce(created_at, ${instant(at)}), updated_at = ${instant(at)}`
}
