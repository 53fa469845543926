import type { CounterMember } from '../flush/members.ts'
import { type Step, select } from '../flush/steps.ts'
import { instant, integer, list } from '../literals.ts'
import { REVISION_OF_NOW } from '../revisions.ts'
import { allTime, BEGINNING, type CounterRecord, type Marks, times } from './update.ts'

/** Temporary slot for the sum of the others: no counter has so many slots. */
const SPARE_SLOT = 65_535

/** Adds to one slot of a counter, whose revision is the sum over its slots. Only the first one includes a time. */
export function addToSlot({ id, version }: CounterRecord, slot: number, delta: number, { at, raise }: Marks) {
  return `update counter_value
   set revision = revision + ${raise},
       ${times(at)},
       value = value + ${integer(delta)}
 where counter_id = ${integer(id)} and ${allTime(slot)} and version = ${integer(version)}`
}

type SlotRow = { version: number } & Record<'value' | 'revision', number | string>

/** Adds to a slot, or locks one or all of them, and reads their sum. */
export function slotSteps(member: CounterMember, at: Date): Step[] {
  const { row } = member
  const { slot, coalesced, raise } = member.run
  const owner = row.key
  if (slot === undefined) {
    return select<SlotRow>(lockSlots(row, slot), owner, (slots) => {
      const isThere = slots.length > 0 && slots.every(({ version }) => version === row.version)
      member.before = isThere ? sumOf(slots.map(({ value }) => value)) : undefined
      member.revision = sumOf(slots.map(({ revision }) => revision))
    })
  }
  const added = coalesced?.kind === 'add' ? coalesced.delta : undefined
  const note = (isThere: boolean) => {
    member.before = isThere ? 0 : undefined
  }
  const change: Step[] =
    added === undefined
      ? select<SlotRow>(lockSlots(row, slot), owner, ([locked]) => note(locked?.version === row.version))
      : [
          {
            statement: addToSlot(row, slot, added, { at, raise }),
            owner,
            readResult: ({ affectedRows }) => note(affectedRows === 1),
          },
        ]
  const readSum = select<Omit<SlotRow, 'version'>>(sumSlots(row), owner, ([sums]) => {
    if (member.before !== undefined) member.before = Number(sums?.value) - (added ?? 0)
    member.revision = Number(sums?.revision) - (coalesced ? raise : 0)
  })
  return [...change, ...readSum]
}

/** A slot may be beyond the safe range although the sum is not. */
function sumOf(values: readonly (number | string)[]): number {
  return Number(values.reduce((sum, value) => sum + BigInt(value), 0n))
}

/** Locks a slot of a counter, or all of them in order, and reads their values. */
function lockSlots({ id }: CounterRecord, slot: number | undefined): string {
  return `select version, value, revision
  from counter_value force index (primary)
 where counter_id = ${integer(id)} and ${allTime(slot)}
 order by slot
   for update`
}

/** Reads the sum of all slots, as far as other sessions have committed it. */
function sumSlots({ id }: CounterRecord): string {
  return `select cast(sum(value) as signed) as value, cast(sum(revision) as unsigned) as revision
  from counter_value
 where counter_id = ${integer(id)} and ${allTime()}`
}

/** Sets the sum of a counter's locked slots. */
export function setSlots({ id }: CounterRecord, to: number, { at, raise }: Marks): string {
  return `update counter_value
   set revision = revision + if(slot = 0, ${raise}, 0),
       ${times(at)},
       value = if(slot = 0, ${integer(to)}, 0)
 where counter_id = ${integer(id)} and ${allTime()}`
}

/** Changes the number of slots of a counter, which are locked. The first one gets the sum. */
export function spread(id: number, slots: number, version: number, { at, first }: Omit<Marks, 'raise'>) {
  const others = Array.from({ length: slots - 1 }, (_, index) => index + 1)
  const insertOthers = `insert into counter_value (counter_id, period, starts_at, slot, version, value)
values ${list(others, (slot) => `(${integer(id)}, 0, ${BEGINNING}, ${integer(slot)}, ${integer(version)}, 0)`)}`
  return [
    ...replacedBySum(id, {
      period: 0,
      startsAt: BEGINNING,
      from: [allTime()],
      replaced: allTime(),
      version: integer(version),
      notes: `if(count(created_at) = 0, ${first ?? REVISION_OF_NOW}, sum(revision)) + 1, coalesce(min(created_at), ${instant(at)}), max(updated_at)`,
    }),
    ...(others.length > 0 ? [insertOthers] : []),
  ]
}

interface RowsToSum {
  /** Key of the row in slot 0 that gets the sum: a period code, and a literal. */
  period: number
  startsAt: string
  /** Conditions of the rows that are summed, and of those that are deleted. */
  from: readonly string[]
  replaced: string
  version?: string
  notes?: string
}

/** Replaces rows of a counter with one that has their sum. One beyond the safe range fails, as null. */
export function replacedBySum(
  id: number,
  { period, startsAt, from, replaced, version = '0', notes = '0, null, null' }: RowsToSum,
): string[] {
  const sum = 'coalesce(sum(value), 0)'
  const { MIN_SAFE_INTEGER: low, MAX_SAFE_INTEGER: high } = Number
  const row = `counter_id = ${integer(id)} and period = ${integer(period)} and starts_at = ${startsAt}`
  const of = from.length > 0 ? from.map((part) => `(${part})`).join(' or ') : 'false'
  return [
    // A locking read: a plain one may miss the writes of a transaction that has just released its locks.
    `insert into counter_value
  (counter_id, period, starts_at, slot, version, value, revision, created_at, updated_at)
select ${integer(id)}, ${integer(period)}, ${startsAt}, ${SPARE_SLOT}, ${version},
       if(${sum} between ${low} and ${high}, ${sum}, null), ${notes}
  from counter_value force index (primary)
 where counter_id = ${integer(id)} and (${of})
   for update`,
    `delete from counter_value where counter_id = ${integer(id)} and ${replaced} and slot < ${SPARE_SLOT}`,
    `update counter_value set slot = 0 where ${row} and slot = ${SPARE_SLOT}`,
  ]
}
