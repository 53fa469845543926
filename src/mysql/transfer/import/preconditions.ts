import { connectionOptions, openConnection } from '../../connections/settings.ts'
import type { Target } from '../../connections/target.ts'
import { select } from '../../select.ts'

const CONNECT_TIMEOUT_MS = 10_000

/** What a restore must know of its database. */
export interface Preconditions {
  /** Sessions of others that the user may see: without the right PROCESS its own, on a cluster those of one node. */
  otherSessions: number
  /** Whether it has no counter, sequence, API key or idempotency key. */
  isEmpty: boolean
}

export async function readPreconditions(target: Target): Promise<Preconditions> {
  const connection = await openConnection(connectionOptions(target, CONNECT_TIMEOUT_MS))
  try {
    const [row] = await select<{ sessions: number; has_rows: number }>(
      connection,
      `select (select count(*)
                 from information_schema.processlist
                where db = database() and id <> connection_id()) as sessions,
              exists (select 1 from counter) or exists (select 1 from sequence)
                or exists (select 1 from api_key) or exists (select 1 from idempotency_key) as has_rows`,
    )
    if (!row) throw new Error('The database returned no row')
    return { otherSessions: Number(row.sessions), isEmpty: Number(row.has_rows) === 0 }
  } finally {
    await connection.end()
  }
}
