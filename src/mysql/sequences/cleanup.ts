import { codeOf } from '../../commit/reservations.ts'
import { DAY_MS } from '../../rules/calendar.ts'
import { BATCH, deleteFound, deleteWithParts, type JobContext } from '../batches.ts'
import { bytes, instant, integer } from '../literals.ts'

/** Retention of released and expired reservations without a number of their own, in days. */
const KEPT_DAYS = 30

/**
 * Deletes the rows of deleted sequences, and reservations that ended long ago without a number of their own. Runs in
 * batches, each in its own transaction, over rows that nobody writes any more.
 */
export async function sweepSequences(context: JobContext): Promise<void> {
  const before = context.now.getTime() - KEPT_DAYS * DAY_MS
  for (const state of ['RELEASED', 'EXPIRED'] as const) {
    const old = `select token
       from reservation force index (reservation_closed)
      where state = ${codeOf(state)} and not is_free and closed_at < ${instant(before)}
      limit ${BATCH}`
    await deleteFound(context, old, deleteReservation)
  }
  const deleted = 'select id from deleted_sequence order by id limit 1'
  await deleteWithParts(context, { find: deleted, table: 'deleted_sequence' }, (sequences) =>
    deleteSequenceGroups(context, sequences),
  )
}

/** Sequence groups last: their other rows are found by their ids. */
function deleteSequenceGroups(context: JobContext, sequences: string): Promise<void> {
  const groups = `select id
       from sequence_group force index (sequence_group_version)
      where sequence_id in (${sequences})
      limit ${BATCH}`
  return deleteWithParts(context, { find: groups, table: 'sequence_group' }, async (ids) => {
    const reservations = `select token from reservation where group_id in (${ids}) limit ${BATCH}`
    await deleteFound(context, reservations, deleteReservation)
    const values = `select group_id, period_key
       from sequence_value force index (primary)
      where group_id in (${ids})
      limit ${BATCH}`
    await deleteFound<Record<'group_id' | 'period_key', number>>(
      context,
      values,
      ({ group_id, period_key }) =>
        `delete from sequence_value where group_id = ${integer(group_id)} and period_key = ${integer(period_key)}`,
    )
  })
}

function deleteReservation({ token }: { token: Buffer }): string {
  return `delete from reservation where token = ${bytes(token)}`
}
