import type { Period } from '../../core/time/calendar.ts'
import { BATCH, deleteFound, executeEach, inBatches, type JobContext } from '../batches.ts'
import { type Connection, inTransaction } from '../connections/database.ts'
import { instant, integer, list } from '../literals.ts'
import { select } from '../select.ts'
import { PERIOD_CODES } from './retention.ts'

interface TotalRow {
  counter_id: number
  starts_at: Date
  slot: number
}

/** The periods of a kind that began in a time range, as literals. */
interface PastPeriods {
  period: Period
  from: string
  before: string
}

/** Deletes totals of periods that began before an instant. Both that and the counters' ids are literals. */
export function deleteTotals(context: JobContext, ids: string, period: Period, before: string) {
  const past = `select counter_id, starts_at, slot
       from counter_value force index (primary)
      where counter_id in (${ids})
        and period = ${PERIOD_CODES[period]} and starts_at < ${before}
      limit ${integer(BATCH)}`
  return deleteFound(context, past, removal(period))
}

/**
 * Adds the other slots of past periods to slot 0, and deletes them. If a very late writer adds to another slot of such
 * a period, the next sweep folds that.
 */
export async function foldSlots(context: JobContext, ids: readonly number[], past: PastPeriods) {
  let left = ids
  await inBatches(context, async (connection) => {
    const folded = await inTransaction(connection, () => foldBatch(connection, left, past))
    const last = folded.at(-1)?.counter_id ?? 0
    left = left.filter((id) => id >= last)
    return folded.length
  })
}

async function foldBatch(
  connection: Connection,
  ids: readonly number[],
  { period, from, before }: PastPeriods,
): Promise<TotalRow[]> {
  const rows = await select<TotalRow & { value: number | string }>(
    connection,
    `select counter_id, starts_at, slot, value
       from counter_value force index (primary)
      where counter_id in (${list(ids, integer)})
        and period = ${PERIOD_CODES[period]} and starts_at >= ${from} and starts_at < ${before}
        and slot > 0
      order by counter_id, starts_at, slot
      limit ${integer(BATCH)}
        for update`,
  )
  if (rows.length === 0) return []
  const moved = list(
    rows,
    ({ counter_id, starts_at, value }) =>
      `(${integer(counter_id)}, ${PERIOD_CODES[period]}, ${instant(starts_at)}, 0, 0, ${BigInt(value)})`,
  )
  await connection.query(
    `insert into counter_value (counter_id, period, starts_at, slot, version, value)
     values ${moved}
     on duplicate key update value = value + values(value)`,
  )
  await executeEach(connection, rows.map(removal(period)))
  return rows
}

function removal(period: Period): (row: TotalRow) => string {
  return ({ counter_id, starts_at, slot }) =>
    `delete from counter_value
      where counter_id = ${integer(counter_id)} and period = ${PERIOD_CODES[period]}
        and starts_at = ${instant(starts_at)} and slot = ${integer(slot)}`
}
