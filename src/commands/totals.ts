/* Period totals as the database has them: in the columns of a counter's slots, and in its history. */
import { COLUMNS, type PeriodsRow, periodCoded } from '../commit/periodStatements.ts'
import { PERIODS } from '../rules/calendar.ts'
import type { StoredPeriodTotal } from '../rules/entries.ts'
import { totalKey } from '../rules/merge.ts'

/** Columns of all slots of counters. */
export const SLOT_COLUMNS = [
  'counter_id as id, slot, version, value, created_at',
  ...PERIODS.flatMap((period) => [COLUMNS[period].start, COLUMNS[period].added]),
].join(', ')

export interface SlotRow extends Record<'id' | 'slot' | 'version', number> {
  /** May be beyond the safe range, although the sum of all slots is not. */
  value: number | string
  created_at: Date | null
}

/** What the columns of all slots of a counter have of each period, by `totalKey`. */
export function columnTotals(slots: readonly SlotRow[]): Map<string, StoredPeriodTotal> {
  const totals = new Map<string, StoredPeriodTotal>()
  for (const slot of slots) {
    // The other columns are those of periods.
    const columns = slot as unknown as PeriodsRow
    for (const period of PERIODS) {
      const start = columns[COLUMNS[period].start]
      const added = columns[COLUMNS[period].added]
      if (start == null || added == null || BigInt(added) === 0n) continue
      const total = { period, start: Number(start), value: BigInt(added) }
      totals.set(totalKey(total), addedTo(totals, total))
    }
  }
  return totals
}

/** A total, and what others have of the same period. */
export function addedTo(
  others: ReadonlyMap<string, StoredPeriodTotal>,
  total: StoredPeriodTotal,
): StoredPeriodTotal {
  return { ...total, value: total.value + (others.get(totalKey(total))?.value ?? 0n) }
}

export interface TotalRow extends Record<'id' | 'period' | 'start', number> {
  value: number | string
}

export function totalIn({ period: code, start, value }: TotalRow): StoredPeriodTotal {
  const period = periodCoded(code)
  if (!period) throw new Error(`Unknown period in the database: ${code}`)
  return { period, start, value: BigInt(value) }
}
