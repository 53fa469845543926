import type { CounterReading } from '../core/groupCommit/writer.ts'
import { COLUMNS, type PeriodsRow, periodColumns, periodsIn, startSecond } from '../mysql/counters/periods.ts'
import { type Marks, times } from '../mysql/counters/update.ts'
import { instant, integer, list } from '../mysql/literals.ts'
import { REVISION_OF_NOW } from '../mysql/revisions.ts'
import { firstRow, rowsOf } from '../mysql/session.ts'
import type { CounterRow } from '../rules/rows.ts'
import type { CounterWork } from './batch.ts'
import { PERIOD_CODES } from './periodStatements.ts'
import type { FlushText, Reader } from './statements.ts'

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
