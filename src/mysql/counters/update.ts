import type { CounterRun } from '../../core/groupCommit/counterRun.ts'
import { instant, integer, list } from '../literals.ts'
import { raisedRevision } from '../revisions.ts'
import { addingInPeriods, andRoomyPeriods } from './periods.ts'
import type { CounterRecord } from './record.ts'

/**
 * Adds to a row's value, and returns the value before in the answer: MySQL Cookbook, "single-row sequence generators".
 * One statement, so that nothing comes between reading and writing. `affectedRows` shows whether the row exists and has
 * the running periods. If `insertId` is 0, the value may have been 0, or the table may have a trigger. (The function is
 * unsigned, hence the cast.)
 */
export function addReturningOld(
  { id, version }: CounterRecord,
  run: CounterRun,
  added: number,
  at: Date,
): string {
  return `update counter_value
   set ${marks({ at, raise: run.raise })},
       ${addingInPeriods(run, added)}value = cast(last_insert_id(value) as signed) + ${integer(added)}
 where counter_id = ${integer(id)} and slot = 0 and version = ${integer(version)}${andRoomyPeriods(run)}`
}

/** Adds the same to each of several locked rows, if it has the running periods: those of one definition. */
export function add(ids: readonly number[], run: CounterRun, added: number, at: Date): string {
  return `update counter_value
   set ${marks({ at, raise: run.raise })},
       ${addingInPeriods(run, added)}value = value + ${integer(added)}
 where counter_id in (${list(ids, integer)}) and slot = 0${andRoomyPeriods(run)}`
}

/** Locks rows in the order of their primary key, and reads them with the columns of periods. */
export function lock(ids: readonly number[], columns: readonly string[]): string {
  return `${read(ids, columns)}
 order by counter_id
   for update`
}

/** Reads rows: the values, and the columns of periods. The revision of a row that was never changed is null. */
export function read(ids: readonly number[], columns: readonly string[]): string {
  const revision = 'if(created_at is null, null, revision) as revision'
  // Without `force index`, a server may scan, and lock, all of a small table.
  return `select ${['counter_id as id, version, value', revision, ...columns].join(', ')}
  from counter_value force index (primary)
 where counter_id in (${list(ids, integer)}) and slot = 0`
}

/** Applies the same assignments to each of several locked rows. */
export function change(ids: readonly number[], assignments: string, noted: Marks): string {
  return `update counter_value
   set ${marks(noted)},
       ${assignments}
 where counter_id in (${list(ids, integer)}) and slot = 0`
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
