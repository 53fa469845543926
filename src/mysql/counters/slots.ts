import type { FoundPeriod } from '../../core/counters/runningPeriods.ts'
import type { CounterMember, Members } from '../flush/members.ts'
import { type Step, select } from '../flush/steps.ts'
import { instant, integer, list } from '../literals.ts'
import { REVISION_OF_NOW } from '../revisions.ts'
import { COLUMNS, type PeriodsRow, periodColumns, periodsFound, startSecond } from './periods.ts'
import type { CounterRecord } from './record.ts'
import { type Marks, times } from './update.ts'

/** Temporary slot for the sum of the others: no counter has so many slots. */
const SPARE_SLOT = 65_535

type SlotRow = PeriodsRow & { slot: number; version: number } & Record<'value' | 'revision', number | string>

/**
 * Locks one or all slots of a counter, and reads them. If it is one, reads the sum of all as well, as far as other
 * sessions have committed it.
 */
export function slotSteps(members: Members, member: CounterMember): Step[] {
  const { row, run } = member
  const { slot } = run
  const locked = select<SlotRow>(lockSlots(member), row.key, (slots) => {
    const own = slots.find((one) => one.slot === (slot ?? 0))
    const isThere = own !== undefined && slots.every(({ version }) => version === row.version)
    if (!isThere) return
    const periods = periodsFound(run, own)
    const [value, revision] = [sumOf(slots, 'value'), sumOf(slots, 'revision')]
    for (const other of slots) if (other !== own) addOther(periods, periodsFound(run, other))
    member.found = {
      value: Number(value),
      revision: Number(revision),
      isAdded: false,
      periods,
      now: members.now,
    }
  })
  if (slot === undefined) return locked
  return [
    ...locked,
    ...select<SlotRow>(sumSlots(member), row.key, ([sums]) => {
      const { found } = member
      if (!found || !sums) return
      for (const one of found.periods ?? [])
        one.inOtherSlots = BigInt(sums[COLUMNS[one.period].added] ?? 0) - ownIn(one)
      member.found = { ...found, value: Number(sums.value), revision: Number(sums.revision) }
    }),
  ]
}

function addOther(periods: readonly FoundPeriod[], others: readonly FoundPeriod[]): void {
  for (const [index, one] of periods.entries()) {
    const other = others[index]
    if (other) one.inOtherSlots += ownIn(other)
  }
}

/** What the columns have of a running period. */
function ownIn({ start, columns }: FoundPeriod): bigint {
  return columns?.start === start ? columns.added : 0n
}

/** A slot may be beyond the safe range although the sum is not. */
function sumOf(slots: readonly SlotRow[], column: 'value' | 'revision'): bigint {
  return slots.reduce((sum, slot) => sum + BigInt(slot[column]), 0n)
}

/** Locks a slot of a counter, or all of them in order, and reads them. */
function lockSlots(member: CounterMember): string {
  const { slot } = member.run
  return `select ${['slot, version, value, revision', ...periodColumns([member.run])].join(', ')}
  from counter_value force index (primary)
 where counter_id = ${integer(member.row.id)}${slot === undefined ? '' : ` and slot = ${integer(slot)}`}
 order by slot
   for update`
}

/** Reads the sums of all slots, as far as other sessions have committed them. */
function sumSlots({ row: { id }, run }: CounterMember): string {
  const totals = run.running.map(({ period, start }) => {
    const columns = COLUMNS[period]
    return `, cast(sum(if(${columns.start} = ${startSecond(start)}, ${columns.added}, 0)) as signed) as ${columns.added}`
  })
  return `select cast(sum(value) as signed) as value, cast(sum(revision) as unsigned) as revision${totals.join('')}
  from counter_value
 where counter_id = ${integer(id)}`
}

/** Adds to one slot of a counter, whose revision is the sum over its slots. Only the first one includes a time. */
export function addToSlot(
  { id }: CounterRecord,
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
export function setSlots({ id }: CounterRecord, to: number, columns: string, { at, raise }: Marks): string[] {
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
