import type { Period } from '../../core/time/calendar.ts'
import { BATCH, deleteEach, executeEach } from '../batches.ts'
import { type Connection, inTransaction } from '../connections/database.ts'
import { instant, integer, list } from '../literals.ts'
import { select } from '../select.ts'
import { PERIOD_CODES } from './retention.ts'

interface TotalRow {
  counter_id: number
  starts_at: Date
  slot: number
}

/** Deletes a batch of totals of periods that began before an instant. Returns the number of rows. */
export async function deleteTotals(
  connection: Connection,
  ids: readonly number[],
  period: Period,
  before: string,
): Promise<number> {
  const rows = await select<TotalRow>(
    connection,
    `select counter_id, starts_at, slot
       from counter_value force index (primary)
      where counter_id in (${list(ids, integer)})
        and period = ${PERIOD_CODES[period]} and starts_at < ${before}
      limit ${integer(BATCH)}`,
  )
  return deleteEach(connection, rows.map(removal(period)))
}

function removal(period: Period): (row: TotalRow) => string {
  return ({ counter_id, starts_at, slot }) =>
    `delete from counter_value
      where counter_id = ${integer(counter_id)} and period = ${PERIOD_CODES[period]}
        and starts_at = ${instant(starts_at)} and slot = ${integer(slot)}`
}

/**
 * Adds the other slots of past periods to slot 0, and deletes them. If a very late writer adds to another slot of such
 * a period, the next sweep folds that.
 *
 * @returns the number of rows folded, and the counter of the last one
 */
export async function foldSlots(
  connection: Connection,
  ids: readonly number[],
  period: Period,
  { from, before }: { from: string; before: string },
): Promise<{ count: number; last: number }> {
  return inTransaction(connection, async () => {
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
    const last = rows.at(-1)
    if (!last) return { count: 0, last: 0 }
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
    return { count: rows.length, last: last.counter_id }
  })
}
