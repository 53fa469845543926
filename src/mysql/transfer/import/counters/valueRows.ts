import { PERIODS } from '../../../../core/time/calendar.ts'
import { totalKey } from '../../../../core/transfer/mergeCounter.ts'
import { PERIOD_CODES } from '../../../counters/columns.ts'
import { COLUMNS } from '../../../counters/periods.ts'
import { instant, integer, list, orNull } from '../../../literals.ts'
import { REVISION_OF_NOW } from '../../../revisions.ts'
import type { MergedCounter } from './counterRows.ts'

/** A counter with its row in `counter`. `isNew`: it has no rows of its values yet. */
export type Located = MergedCounter & { id: number; version: number; isNew: boolean }

const PERIOD_COLUMNS = PERIODS.flatMap((period) => [COLUMNS[period].start, COLUMNS[period].added])

/** Writes the first slots. Where there are several, what is added goes to the first one. */
export function writeValues(all: readonly Located[], now: Date): string {
  return `insert into counter_value
  (counter_id, slot, version, value, revision, created_at, updated_at, ${PERIOD_COLUMNS.join(', ')})
values ${list(all, (one) => firstSlot(one, now))}
on duplicate key update
       revision = revision + 1,
       value = values(value),
       updated_at = greatest(coalesce(updated_at, values(updated_at)), coalesce(values(updated_at), updated_at)),
       ${PERIODS.map((period) => `${COLUMNS[period].added} = values(${COLUMNS[period].added})`).join(', ')}`
}

function firstSlot({ entry, present, merge, id, version, isNew }: Located, now: Date): string {
  const { createdAt = now, updatedAt = now } = entry.type === 'counter' ? entry : { updatedAt: null }
  const { first, revision } = firstOf(present)
  const value = isNew
    ? BigInt(merge.value)
    : BigInt(first?.value ?? 0) + BigInt(merge.value) - BigInt(present?.value ?? 0)
  const created = present?.exists ? present.slots.find(({ created_at }) => created_at)?.created_at : undefined
  const changed = new Map(merge.totals.map((total) => [totalKey(total), total.value]))
  const periods = PERIODS.flatMap((period) => {
    const start = isNew ? null : (first?.[COLUMNS[period].start] ?? null)
    if (start === null) return ['null', 'null']
    const key = totalKey({ period, start: Number(start) })
    const total = isInColumns(present, key) ? changed.get(key) : undefined
    const added =
      total === undefined ? first?.[COLUMNS[period].added] : total - (present?.inHistory.get(key) ?? 0n)
    return [String(start), String(added ?? 0)]
  })
  const revised = present?.exists ? `${revision} + 1` : `${REVISION_OF_NOW} + 1`
  const times = [instant(created ?? createdAt), orNull(updatedAt, instant)]
  return `(${[integer(id), 0, integer(version), value, revised, ...times, ...periods].join(', ')})`
}

function firstOf(present: MergedCounter['present']) {
  const slots = present?.slots ?? []
  const first = slots.find(({ slot }) => slot === 0) as
    | (Record<string, number | string | null> & { value: number })
    | undefined
  return { first, revision: slots.reduce((sum, { revision }) => sum + BigInt(revision), 0n) }
}

/** Whether a total is one of a period that the only slot's columns have: additions are then made to these. */
function isInColumns(present: MergedCounter['present'], key: string): boolean {
  if (present?.slots.length !== 1) return false
  const first = present.slots[0] as unknown as Record<string, number | null>
  return PERIODS.some((period) => {
    const start = first[COLUMNS[period].start]
    return start != null && totalKey({ period, start: Number(start) }) === key
  })
}

export function otherSlots({ id, version, isNew, merge }: Located): string[] {
  const slots = (isNew && merge.definition?.slots) || 1
  return Array.from(
    { length: slots - 1 },
    (_, index) => `(${integer(id)}, ${index + 1}, ${integer(version)}, 0)`,
  )
}

export function historyRows({ id, isNew, present, merge }: Located): string[] {
  return merge.totals.flatMap((total) => {
    const key = totalKey(total)
    if (!isNew && isInColumns(present, key)) return []
    const value = total.value - (isNew ? 0n : (present?.inColumns.get(key) ?? 0n))
    return [`(${integer(id)}, ${PERIOD_CODES[total.period]}, ${integer(total.start)}, ${value})`]
  })
}
