import type { CoalescedWork, CounterWork } from '../../commit/batch.ts'
import { idsOf } from '../../commit/statements.ts'
import { groupBy } from '../groupBy.ts'
import { instant, integer, list } from '../literals.ts'
import { raisedRevision } from '../revisions.ts'
import { addingInPeriods, andRoomyPeriods, isRoomy, periodColumns } from './periods.ts'

/**
 * Adds to a row's value, and returns the value before in the answer: MySQL Cookbook, "single-row sequence generators".
 * One statement, so that nothing comes between reading and writing. `affectedRows` shows whether the row exists and has
 * the running periods. If `insertId` is 0, the value may have been 0, or the table may have a trigger. (The function is
 * unsigned, hence the cast.)
 */
export function addReturningOld({ row, path, running }: CoalescedWork, at: Date): string {
  const sum = integer(path.sum)
  return `update counter_value
   set ${marks({ at, raise: path.raise })},
       ${addingInPeriods(running, sum)}value = cast(last_insert_id(value) as signed) + ${sum}
 where counter_id = ${integer(row.id)} and slot = 0 and version = ${integer(row.version)}${andRoomyPeriods(running)}`
}

/**
 * Adds the same to each of several locked rows, if it has the running periods: those of one definition. Without
 * `force index`, MariaDB 11 scans a small table, and waits for rows that others have locked.
 */
export function add(works: readonly [CoalescedWork, ...CoalescedWork[]], at: Date): string {
  const [{ path, running }] = works
  const sum = integer(path.sum)
  return `update counter_value force index (primary)
   set ${marks({ at, raise: path.raise })},
       ${addingInPeriods(running, sum)}value = value + ${sum}
 where counter_id in (${idsOf(works)}) and slot = 0${andRoomyPeriods(running)}`
}

/**
 * Makes the additions of several counters with the same running periods, in the order of their primary key: to those
 * rows that have their version and the running periods, and whose totals leave room for small additions.
 */
export function addToEach(works: readonly [CoalescedWork, ...CoalescedWork[]], at: Date): string {
  const [{ running }] = works
  const addition = eachOf(works, ({ path }) => path.sum)
  const raise = eachOf(works, ({ path }) => path.raise)
  const versions = list(works, ({ row }) => `(${integer(row.id)}, ${integer(row.version)})`)
  return `update counter_value force index (primary)
   set ${marks({ at, raise })},
       ${addingInPeriods(running, addition)}value = value + ${addition}
 where counter_id in (${idsOf(works)}) and slot = 0
   and (counter_id, version) in (${versions}) and ${isRoomy('value')}${andRoomyPeriods(running)}`
}

/** An amount for each row: that of most rows, except for those that it lists. */
function eachOf(works: readonly CoalescedWork[], amountOf: (work: CoalescedWork) => number): string {
  const groups = [...groupBy(works, amountOf)].sort(([, a], [, b]) => b.length - a.length)
  const [[most] = [0], ...others] = groups
  if (others.length === 0) return integer(most)
  const cases = others.map(([amount, some]) => `when counter_id in (${idsOf(some)}) then ${integer(amount)}`)
  return `case ${cases.join(' ')} else ${integer(most)} end`
}

/** Locks rows in the order of their primary key, and reads them with the columns of periods. */
export function lock(works: readonly CounterWork[]): string {
  return `${read(works)}
 order by counter_id
   for update`
}

/** Reads rows: the values, and the columns of periods. The revision of a row that was never changed is null. */
export function read(works: readonly CounterWork[]): string {
  const revision = 'if(created_at is null, null, revision) as revision'
  // Without `force index`, a server may scan, and lock, all of a small table.
  return `select ${['counter_id as id, version, value', revision, ...periodColumns(works)].join(', ')}
  from counter_value force index (primary)
 where counter_id in (${idsOf(works)}) and slot = 0`
}

/** Applies the same assignments to each of several locked rows. */
export function change(works: readonly { row: { id: number } }[], assignments: string, noted: Marks): string {
  return `update counter_value force index (primary)
   set ${marks(noted)},
       ${assignments}
 where counter_id in (${idsOf(works)}) and slot = 0`
}

/** What a change of a value also sets. */
export interface Marks {
  at: Date
  /** Increase of the revision. */
  raise: number | string
  /** Initial revision of a row that was never changed, if known. */
  first?: number | undefined
}

function marks({ at, raise, first }: Marks): string {
  return `${raisedRevision('created_at is null', raise, first)}, ${times(at)}`
}

/** The times set by a change. */
export function times(at: Date): string {
  const time = instant(at)
  return `created_at = coalesce(created_at, ${time}), updated_at = ${time}`
}
