import { RETENTION_DAYS } from '../../commit/fence.ts'
import { BATCH, deleteFound, inBatches, type JobContext } from '../batches.ts'
import { digest, integer, list } from '../literals.ts'
import { select } from '../sql.ts'

/**
 * Deletes the idempotency keys older than `ageMs` by the database's clock, and returns their number. A writer only waits
 * for one if it reuses an old key at that moment.
 */
export function sweepKeys(context: Omit<JobContext, 'now'>, ageMs: number): Promise<number> {
  const before = `utc_timestamp(3) - interval ${integer(1000 * ageMs)} microsecond`
  return inBatches(context, async (connection) => {
    const rows = await select<{ hash: Buffer }>(
      connection,
      `select hash from idempotency_key
        where claimed_at < ${before}
        order by claimed_at
        limit ${integer(BATCH)}`,
    )
    if (rows.length === 0) return 0
    // In the order of the primary key, so that the server uses it. A key reused in the meantime is younger.
    await connection.query(
      `delete from idempotency_key
        where hash in (${list(rows, ({ hash }) => digest(hash.toString('hex')))})
          and claimed_at < ${before}
        order by hash
        limit ${integer(BATCH)}`,
    )
    return rows.length
  })
}

/** Deletes the fences of writers that ended long ago. It waits for no row of a writer. */
export function sweepFences(context: JobContext): Promise<void> {
  const isOld = `touched_at < utc_timestamp() - interval ${integer(RETENTION_DAYS)} day`
  const old = `select id from fence where ${isOld} limit ${BATCH}`
  return deleteFound<{ id: number }>(
    context,
    old,
    ({ id }) => `delete from fence where id = ${integer(id)} and ${isOld}`,
  )
}
