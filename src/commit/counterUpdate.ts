import { firstRow, rowsOf } from '../mysql/session.ts'
import { groupBy, instant, integer, list, REVISION_OF_NOW, raisedRevision } from '../mysql/sql.ts'
import type { CounterRow } from '../rules/rows.ts'
import type { CoalescedWork, CounterReading, CounterWork } from './batch.ts'
import {
  addingInPeriods,
  andRoomyPeriods,
  COLUMNS,
  isRoomy,
  PERIOD_CODES,
  type PeriodsRow,
  periodColumns,
  periodsIn,
  startSecond,
} from './periodStatements.ts'
import { type FlushText, idsOf, type Reader } from './statements.ts'

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

/** Temporary slot for the sum of the others: no counter has so many slots. */
const SPARE_SLOT = 65_535

type SumRow = PeriodsRow & Record<'value' | 'revision', number | string>
type LockedSlotRow = SumRow & Record<'slot' | 'version', number>

/** The slot of a counter that its operations change; undefined: all of them, under lock. */
export function slotOf({ path }: CounterWork): number | undefined {
  return path.kind === 'locked' && path.slot !== 'all' ? path.slot : undefined
}

/** Locks one or all slots of a counter, and reads one of them, and what there is elsewhere. */
export function lockSlots(work: CounterWork, text: FlushText): Reader<CounterReading | undefined> {
  const { row, running } = work
  const slot = slotOf(work)
  const lockedAt = text.add(
    `select ${['slot, version, value, revision', ...periodColumns([work])].join(', ')}
  from counter_value force index (primary)
 where counter_id = ${integer(row.id)}${slot === undefined ? '' : ` and slot = ${integer(slot)}`}
 order by slot
   for update`,
  )
  const sumAt = text.add(sumRest(work, slot))
  return (answers, { now }) => {
    const slots = rowsOf<LockedSlotRow>(answers[lockedAt])
    const changed = slots.find((each) => each.slot === (slot ?? 0))
    const rest = firstRow<SumRow>(answers[sumAt])
    if (!changed || !rest || slots.some(({ version }) => version !== row.version)) return undefined
    const periods = periodsIn(changed, running, 0).map((each) => ({
      ...each,
      elsewhere: BigInt(rest[COLUMNS[each.period].added] ?? 0),
    }))
    // A slot may be beyond the safe range although the sum is not.
    const value = Number(BigInt(changed.value) + BigInt(rest.value))
    const revision = Number(changed.revision) + Number(rest.revision)
    return { value, revision, isAdded: false, periods, now }
  }
}

/**
 * Sums the other slots, and their running periods with the history: as far as other sessions have committed them, or
 * under lock. In one statement: between two, a period could move.
 */
function sumRest({ row, running }: CounterWork, slot: number | undefined): string {
  const id = integer(row.id)
  const totals = running.map(({ period, start }) => {
    const { start: startColumn, added } = COLUMNS[period]
    const second = startSecond(start)
    return `,
       cast(coalesce(sum(if(${startColumn} = ${second}, ${added}, 0)), 0) + coalesce((
         select h.value
           from counter_history h
          where h.counter_id = ${id} and h.period = ${PERIOD_CODES[period]} and h.start = ${second}), 0) as signed) as ${added}`
  })
  return `select cast(coalesce(sum(value), 0) as signed) as value,
       cast(coalesce(sum(revision), 0) as unsigned) as revision${totals.join('')}
  from counter_value
 where counter_id = ${id} and slot <> ${integer(slot ?? 0)}${slot === undefined ? ' for update' : ''}`
}

/** Adds to one slot of a counter, whose revision is the sum over its slots. Only the first one includes a time. */
export function addToSlot(
  { id }: CounterRow,
  slot: number,
  delta: number,
  columns: string,
  { at, raise }: Marks,
) {
  return `update counter_value
   set revision = revision + ${raise},
       ${times(at)},
       ${columns}value = value + ${integer(delta)}
 where counter_id = ${integer(id)} and slot = ${integer(slot)}`
}

/** Sets the sum of a counter's locked slots. */
export function setSlots({ id }: CounterRow, to: number, columns: string, { at, raise }: Marks): string[] {
  return [
    `update counter_value set value = 0 where counter_id = ${integer(id)} and slot > 0`,
    `update counter_value
   set revision = revision + ${raise},
       ${times(at)},
       ${columns}value = ${integer(to)}
 where counter_id = ${integer(id)} and slot = 0`,
  ]
}

/** Changes the number of slots of a counter, which are locked. The first one gets the sum. */
export function spread(id: number, slots: number, version: number, { at, first }: Omit<Marks, 'raise'>) {
  const own = `counter_id = ${integer(id)}`
  const sum = 'coalesce(sum(value), 0)'
  const { MIN_SAFE_INTEGER: low, MAX_SAFE_INTEGER: high } = Number
  const others = Array.from({ length: slots - 1 }, (_, index) => index + 1)
  const insertOthers = `insert into counter_value (counter_id, slot, version, value)
values ${list(others, (slot) => `(${integer(id)}, ${integer(slot)}, ${integer(version)}, 0)`)}`
  return [
    // A locking read: a plain one may miss the writes of a transaction that has just released its locks.
    `insert into counter_value (counter_id, slot, version, value, revision, created_at, updated_at)
select ${integer(id)}, ${SPARE_SLOT}, ${integer(version)}, if(${sum} between ${low} and ${high}, ${sum}, null),
       if(count(created_at) = 0, ${first ?? REVISION_OF_NOW}, sum(revision)) + 1,
       coalesce(min(created_at), ${instant(at)}), max(updated_at)
  from counter_value force index (primary)
 where ${own}
   for update`,
    `delete from counter_value where ${own} and slot < ${SPARE_SLOT}`,
    `update counter_value set slot = 0 where ${own} and slot = ${SPARE_SLOT}`,
    ...(others.length > 0 ? [insertOthers] : []),
  ]
}
