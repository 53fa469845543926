import { PERIODS } from '../../core/time/calendar.ts'
import type { PeriodTotal } from '../../core/transfer/entries.ts'
import { totalKey } from '../../core/transfer/mergeCounter.ts'
import { COLUMNS, type PeriodsRow } from '../counters/periods.ts'

/** Columns of all slots of counters. */
export const SLOT_COLUMNS = [
  'counter_id as id, slot, version, value, revision, created_at, updated_at',
  ...PERIODS.flatMap((period) => [COLUMNS[period].start, COLUMNS[period].added]),
].join(', ')

export type SlotRow = Record<'id' | 'slot' | 'version', number> & {
  value: number | string
  revision: number | string
  created_at: Date | null
  updated_at: Date | null
} & Omit<PeriodsRow, 'id' | 'slot' | 'version' | 'value' | 'revision' | 'created_at' | 'updated_at'>

/** What the columns of all slots of a counter have of each period. */
export function columnTotals(slots: readonly SlotRow[]): PeriodTotal[] {
  const totals = new Map<string, PeriodTotal>()
  for (const slot of slots) {
    // The other columns are those of periods.
    const columns = slot as unknown as PeriodsRow
    for (const period of PERIODS) {
      const start = columns[COLUMNS[period].start]
      const added = columns[COLUMNS[period].added]
      if (start == null || added == null || BigInt(added) === 0n) continue
      const total = { period, start: Number(start), value: BigInt(added) }
      const before = totals.get(totalKey(total))?.value ?? 0n
      totals.set(totalKey(total), { ...total, value: before + total.value })
    }
  }
  return [...totals.values()]
}
