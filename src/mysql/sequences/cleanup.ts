import type { ReservationState } from '../../core/sequences/state.ts'
import { DAY_MS } from '../../core/time/calendar.ts'
import { BATCH, deleteEach, inBatches, type JobContext } from '../batches.ts'
import { instant, integer, list } from '../literals.ts'
import { select } from '../select.ts'
import { literal, STATES } from './reservations.ts'

/** Retention of released and expired reservations without a number of their own, in days. */
const KEPT_DAYS = 30

const GIVEN_BACK: readonly ReservationState[] = ['RELEASED', 'EXPIRED']

/**
 * Deletes the rows of deleted sequences, and reservations that ended long ago without a number of their own. Runs in
 * batches, each in its own transaction, over rows that nobody writes any more.
 */
export async function sweepSequences(context: JobContext): Promise<void> {
  const { database, now, shouldContinue } = context
  const before = new Date(now.getTime() - KEPT_DAYS * DAY_MS)
  for (const state of GIVEN_BACK) {
    const old = `select token
       from reservation force index (reservation_closed)
      where state = ${STATES.indexOf(state)} and not is_free and closed_at < ${instant(before)}
      limit ${BATCH}`
    await removeAll(context, old, reservation)
  }
  while (shouldContinue()) {
    const [deleted] = await database.withRetry((connection) =>
      select<IdRow>(connection, 'select id from deleted_sequence order by id limit 1'),
    )
    if (!deleted) return
    await removeSequenceGroups(context, deleted.id)
    if (!shouldContinue()) return
    await database.withRetry((connection) =>
      connection.query(`delete from deleted_sequence where id = ${integer(deleted.id)}`),
    )
  }
}

/** Sequence groups last: their other rows are found by their ids. */
async function removeSequenceGroups(context: JobContext, sequenceId: number): Promise<void> {
  const { database, shouldContinue } = context
  while (shouldContinue()) {
    const groups = await database.withRetry((connection) =>
      select<IdRow>(
        connection,
        `select id
           from sequence_group force index (sequence_group_version)
          where sequence_id = ${integer(sequenceId)}
          limit ${BATCH}`,
      ),
    )
    if (groups.length === 0) return
    const ids = list(groups, ({ id }) => integer(id))
    await removeAll(
      context,
      `select token from reservation where group_id in (${ids}) limit ${BATCH}`,
      reservation,
    )
    const values = `select group_id, period_key
       from sequence_value force index (primary)
      where group_id in (${ids})
      limit ${BATCH}`
    await removeAll(context, values, value)
    if (!shouldContinue()) return
    await database.withRetry((connection) => deleteEach(connection, groups.map(group)))
  }
}

function removeAll<Row>(context: JobContext, find: string, removal: (row: Row) => string): Promise<number> {
  return inBatches(context, async (connection) =>
    deleteEach(connection, (await select<Row>(connection, find)).map(removal)),
  )
}

interface IdRow {
  id: number
}

function reservation({ token }: { token: Buffer }): string {
  return `delete from reservation where token = ${literal(token.toString('hex'))}`
}

function value({ group_id, period_key }: { group_id: number; period_key: number }): string {
  return `delete from sequence_value where group_id = ${integer(group_id)} and period_key = ${integer(period_key)}`
}

function group({ id }: IdRow): string {
  return `delete from sequence_group where id = ${integer(id)}`
}
