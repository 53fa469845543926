import type { RowDataPacket } from 'mysql2'
import type { ReservationState } from '../../core/sequences/state.ts'
import { type Connection, type Database, inTransaction } from '../connections/database.ts'
import { instant, integer } from '../literals.ts'
import { literal, STATES } from './reservations.ts'

/** Rows that one transaction deletes: takes a few milliseconds. */
const BATCH = 500
const DAY_MS = 86_400_000
/** Retention of released and expired reservations without a number of their own, in days. */
const KEPT_DAYS = 30

const GIVEN_BACK: readonly ReservationState[] = ['RELEASED', 'EXPIRED']

/**
 * Deletes the rows of deleted sequences, and reservations that ended long ago without a number of their own. Runs in
 * batches, each in its own transaction, over rows that nobody writes any more. Each row is addressed by its full
 * primary key: otherwise a server may scan, and lock, all of a small table.
 *
 * @param now by the database's clock
 * @param mayGoOn called between batches; false: stop
 */
export async function sweepSequences(database: Database, now: Date, mayGoOn: () => boolean): Promise<void> {
  const before = new Date(now.getTime() - KEPT_DAYS * DAY_MS)
  for (const state of GIVEN_BACK) {
    const old = `select token
       from reservation force index (reservation_closed)
      where state = ${STATES.indexOf(state)} and not is_free and closed_at < ${instant(before)}
      limit ${BATCH}`
    await removeAll(database, mayGoOn, old, reservation)
  }
  while (mayGoOn()) {
    const [[deleted]] = await database.withRetry((connection) =>
      connection.query<RowDataPacket[]>('select id from deleted_sequence order by id limit 1'),
    )
    if (!deleted) return
    await removeGroups(database, mayGoOn, deleted.id)
    if (!mayGoOn()) return
    await database.withRetry((connection) =>
      connection.query(`delete from deleted_sequence where id = ${integer(deleted.id)}`),
    )
  }
}

/** Sequence groups last: their other rows are found by their ids. */
async function removeGroups(database: Database, mayGoOn: () => boolean, sequenceId: number): Promise<void> {
  while (mayGoOn()) {
    const [groups] = await database.withRetry((connection) =>
      connection.query<RowDataPacket[]>(
        `select id
           from sequence_group force index (sequence_group_version)
          where sequence_id = ${integer(sequenceId)}
          limit ${BATCH}`,
      ),
    )
    if (groups.length === 0) return
    const ids = groups.map(({ id }) => integer(id)).join(', ')
    const reservations = `select token from reservation where group_id in (${ids}) limit ${BATCH}`
    await removeAll(database, mayGoOn, reservations, reservation)
    const values = `select group_id, period_key
       from sequence_value force index (primary)
      where group_id in (${ids})
      limit ${BATCH}`
    await removeAll(database, mayGoOn, values, value)
    if (!mayGoOn()) return
    await database.withRetry((connection) => removeRows(connection, groups.map(group)))
  }
}

/** Deletes the rows that a statement finds, until it finds less than a full batch. */
async function removeAll(
  database: Database,
  mayGoOn: () => boolean,
  find: string,
  removal: (row: RowDataPacket) => string,
): Promise<void> {
  for (let found = BATCH; found === BATCH && mayGoOn(); ) {
    found = await database.withRetry(async (connection) => {
      const [rows] = await connection.query<RowDataPacket[]>(find)
      await removeRows(connection, rows.map(removal))
      return rows.length
    })
  }
}

async function removeRows(connection: Connection, statements: readonly string[]): Promise<void> {
  if (statements.length === 0) return
  await inTransaction(connection, async () => {
    for (const statement of statements) await connection.query(statement)
  })
}

function reservation({ token }: RowDataPacket): string {
  return `delete from reservation where token = ${literal(token.toString('hex'))}`
}

function value({ group_id, period_key }: RowDataPacket): string {
  return `delete from sequence_value where group_id = ${integer(group_id)} and period_key = ${integer(period_key)}`
}

function group({ id }: RowDataPacket): string {
  return `delete from sequence_group where id = ${integer(id)}`
}
