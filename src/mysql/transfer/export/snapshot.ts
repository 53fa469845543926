import type { Entry, EntryType } from '../../../core/transfer/entries.ts'
import { connectionOptions, openConnection } from '../../connections/settings.ts'
import type { Target } from '../../connections/target.ts'
import { select } from '../../select.ts'
import { exportApiKeys } from './exportApiKeys.ts'
import { exportCounters } from './exportCounters.ts'
import { exportIdempotencyKeys } from './exportIdempotencyKeys.ts'
import { exportNamespaces } from './exportNamespaces.ts'
import { exportReservations } from './exportReservations.ts'
import { exportGroups, exportSequences } from './exportSequences.ts'

export type Snapshot = Awaited<ReturnType<typeof openSnapshot>>

const CONNECT_TIMEOUT_MS = 10_000
/** How long the server waits for a reader that reads slowly, in seconds. */
const IDLE_LIMIT_S = 86_400

/**
 * Opens a view of the database as of one instant, while others change it. The server keeps old versions of the rows that
 * are changed meanwhile, until it is closed.
 */
export async function openSnapshot(target: Target) {
  const connection = await openConnection(connectionOptions(target, CONNECT_TIMEOUT_MS))
  try {
    const statements = [
      `set session wait_timeout = ${IDLE_LIMIT_S}`,
      'set session transaction isolation level repeatable read',
    ]
    for (const statement of statements) await connection.query(statement)
    // Read first: so the snapshot has all that was committed until then.
    const [row] = await select<{ now: Date }>(connection, 'select utc_timestamp(3) as now')
    if (!row) throw new Error('The database returned no time')
    await connection.query('start transaction with consistent snapshot, read only')
    return {
      /** The instant, by the database's clock. What was committed a moment later may be included. */
      at: row.now,

      /** How many counters, sequence groups and reservations there are, approximately. */
      async size(): Promise<number> {
        const [found] = await select<{ size: number | string }>(
          connection,
          `select (select count(*) from counter) + (select count(*) from sequence_group)
                + (select count(*) from reservation) as size`,
        )
        return Number(found?.size ?? 0)
      },

      /** All entries: what others refer to comes before them. */
      async *entries(types: ReadonlySet<EntryType>): AsyncGenerator<Entry> {
        if (types.has('namespace')) yield* exportNamespaces(connection)
        if (types.has('counter')) yield* exportCounters(connection, types.has('counterHistory'))
        if (types.has('sequence')) yield* exportSequences(connection)
        if (types.has('sequenceGroup')) yield* exportGroups(connection)
        if (types.has('reservation')) yield* exportReservations(connection)
        if (types.has('apiKey')) yield* exportApiKeys(connection)
        if (types.has('idempotencyKey')) yield* exportIdempotencyKeys(connection)
      },

      close: () => connection.end().catch(() => connection.destroy()),
    }
  } catch (error) {
    connection.destroy()
    throw error
  }
}
