import type { ConnectionOptions } from 'mysql2'
import { type Connection, createConnection } from 'mysql2/promise'
import { NthError } from '../rules/errors.ts'
import type { Target } from './connections/target.ts'
import { withTimeout } from './connections/timeout.ts'
import type { Values } from './connections/variables.ts'
import { integer } from './literals.ts'

/**
 * Session variables that change what a statement, a COMMIT or a comparison means, with the values that Nth needs: a server
 * may have others as its defaults, or set them for each new connection. Names and values are those of MySQL and of MariaDB,
 * as `show variables` has them.
 */
export const SETTINGS = {
  sql_mode: 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',
  time_zone: '+00:00',
  character_set_client: 'utf8mb4',
  character_set_results: 'utf8mb4',
  collation_connection: 'utf8mb4_unicode_ci',
  autocommit: 'ON',
  // Another value begins a transaction after each COMMIT, or ends the connection.
  completion_type: 'NO_CHAIN',
  // No limit: it is the largest value, beyond the integers of JavaScript.
  sql_select_limit: '18446744073709551615',
  // Otherwise `max_join_size` refuses reads of many rows.
  sql_big_selects: 'ON',
  sql_safe_updates: 'OFF',
  // Otherwise `id is null` finds the row that was inserted last.
  sql_auto_is_null: 'OFF',
  // Otherwise InnoDB may skip the check that a name is unique.
  unique_checks: 'ON',
  // By so many bytes rows are sorted: a name has up to 764.
  max_sort_length: 1024,
  group_concat_max_len: 1_000_000,
} as const satisfies Record<string, string | number>

/**
 * The statements that give a session its settings, whatever the server's defaults. They come first on each connection: with
 * another `sql_select_limit`, even `show variables` leaves variables out. MariaDB would read a list of 1 000 ids or more as
 * a table, and scan all history of each.
 */
export function sessionSettings({ lockWaitS }: { lockWaitS: number }): string[] {
  const assignments = Object.entries(SETTINGS).map(
    ([name, value]) => `${name} = ${typeof value === 'number' || /^\d+$/.test(value) ? value : `'${value}'`}`,
  )
  return [
    `set session
       ${assignments.join(',\n       ')},
       innodb_lock_wait_timeout = ${integer(lockWaitS)}
       /*M! , in_predicate_conversion_threshold = 0 */`,
    // No variable above: its names differ between MySQL and MariaDB.
    'set session transaction isolation level read committed, read write',
  ]
}

export async function sendSettings(connection: Connection, lockWaitS = 2): Promise<void> {
  for (const statement of sessionSettings({ lockWaitS })) await connection.query(statement)
}

/** The driver's own time limit for connecting. */
const CONNECT_TIMEOUT_MS = 10_000

/** Opens a single connection with its settings, within the time limit for connecting, twice. */
export async function openConnection(options: ConnectionOptions, lockWaitS?: number): Promise<Connection> {
  const connection = await createConnection({ timezone: 'Z', ...options })
  // Without a listener, the loss of a connection would end the process.
  connection.on('error', () => undefined)
  try {
    await withTimeout(options.connectTimeout ?? CONNECT_TIMEOUT_MS, sendSettings(connection, lockWaitS))
    return connection
  } catch (error) {
    connection.destroy()
    throw error
  }
}

/** What `group_replication_consistency` becomes. */
const CAUSAL = { EVENTUAL: 'BEFORE', BEFORE_ON_PRIMARY_FAILOVER: 'BEFORE', AFTER: 'BEFORE_AND_AFTER' }

/**
 * Settings of a session by which its transactions and reads wait until their node of a cluster has all that was committed
 * before on another one. An operator's stricter setting is kept.
 *
 * On Group Replication `BEFORE_ON_PRIMARY_FAILOVER` would not do: for seconds, a primary that is shut down answers reads,
 * and takes itself for the primary, though another one has taken over.
 */
export function causalSettings(values: Values): string[] {
  if (values.get('wsrep_on') === 'ON') return ['set session wsrep_sync_wait = @@session.wsrep_sync_wait | 7']
  const consistency = CAUSAL[values.get('group_replication_consistency') as keyof typeof CAUSAL]
  return consistency ? [`set session group_replication_consistency = '${consistency}'`] : []
}

/** A packet has more than its statement: MariaDB 10.11 and 11.8 count two bytes, MySQL 9.7 four. */
const PACKET_OVERHEAD = 8

/** The most bytes of a statement, by the server's variables: at a longer one, the server would end the connection. */
export function maxStatementIn(values: Values): number {
  return Number(values.get('max_allowed_packet') ?? Number.POSITIVE_INFINITY) - PACKET_OVERHEAD
}

/**
 * Called before a statement is sent, which has only ASCII characters. Whoever sends for many callers at once divides them
 * where it throws: so nobody counts bytes while composing.
 *
 * @throws {NthError} REQUEST_ENTITY_TOO_LARGE
 */
export function assertFits(statement: string, maxBytes: number): void {
  if (statement.length <= maxBytes) return
  const message = `The database takes statements of at most ${maxBytes} bytes (max_allowed_packet), and this needs ${statement.length}; nothing was done. Send less at a time, or raise that limit.`
  throw new NthError('REQUEST_ENTITY_TOO_LARGE', message, { limit: maxBytes })
}

export function connectionOptions(target: Target, connectTimeoutMs: number) {
  return {
    ...target,
    connectTimeout: connectTimeoutMs,
    enableKeepAlive: true,
    // Milliseconds. Probes also keep routers from dropping the connection; the system's default is often two hours.
    keepAliveInitialDelay: 10_000,
    timezone: 'Z',
    supportBigNumbers: true,
    // Statements have their values in them. The driver would search each text for placeholders, character by character.
    queryFormat: (statement: string) => statement,
  } satisfies ConnectionOptions
}
