import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import type { ConnectionOptions } from 'mysql2'
import { createConnection } from 'mysql2/promise'
import { Connection } from './connection.ts'
import { withTimeout } from './errors.ts'
import { integer } from './sql.ts'

/** Address of a database, and the user to connect as. */
export interface Target
  extends Pick<ConnectionOptions, 'host' | 'port' | 'socketPath' | 'user' | 'password' | 'ssl'> {
  database: string
}

/** One database that can be reached at several servers, of which the first is preferred: a cluster. */
export type Targets = readonly [Target, ...Target[]]

const FORM = 'mysql://user:password@host:3306/nth'
const FORM_OF_SEVERAL = 'mysql://user:password@a:3306,b:3306/nth'
const PARAMETERS = 'ssl=true, ssl=false, ssl-ca=…, socketPath=…'

/** What precedes the hosts, the hosts, and what follows them. A password may contain "@" and ",". */
const PARTS = /^([a-z]+:\/\/(?:[^/?#]*@)?)([^/?#@]*)(.*)$/s
/** Another user after a host, where else a part of the password would be. */
const USER_PER_HOST = /@[^@,]+:\d+,[^@,:]+:[^@,]*@$/

/**
 * Parses `mysql://user:password@host:3306/database`, with any number of hosts: `…@a:3306,b:3306/database`. `?ssl=true`
 * encrypts connections and verifies that a certificate is valid and for that host, by the certificates of authorities in
 * `?ssl-ca=/path/of/ca.pem` if that is given; `?socketPath=/run/mysqld/mysqld.sock` connects to a server on this machine,
 * and ignores the host.
 *
 * @throws {Error} whose message continues a sentence that begins with the setting's name
 */
export function parseTargets(text: string): Targets {
  const [, before = '', hosts = '', after = ''] = PARTS.exec(text) ?? []
  if (USER_PER_HOST.test(before))
    throw new Error(`must have one user and password, before the first host: ${FORM_OF_SEVERAL}`)
  const [first, ...others] = hosts.split(',').map((host) => parseOne(before + host + after))
  if (!first) throw new Error(`must look like ${FORM}`)
  const targets: Targets = [first, ...others]
  if (first.socketPath !== undefined && others.length > 0)
    throw new Error('must have one host if it has a socketPath')
  const names = targets.map(hostOf)
  const repeated = names.find((name, index) => names.indexOf(name) < index)
  if (repeated) throw new Error(`has the host ${repeated} twice`)
  return targets
}

function parseOne(text: string): Target {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !['mysql:', 'mariadb:'].includes(url.protocol) || url.hostname === '') {
    throw new Error(`must look like ${FORM}`)
  }
  const database = decoded(url.pathname.slice(1))
  if (database === '' || database.includes('/')) {
    throw new Error(`must name one database: ${FORM}`)
  }
  const user = decoded(url.username) || 'root'
  const password = decoded(url.password)
  for (const [name, value] of url.searchParams) {
    if (['socketPath', 'ssl-ca'].includes(name) || (name === 'ssl' && ['true', 'false'].includes(value)))
      continue
    throw new Error(`has the unknown parameter "${name}=${value}"; supported: ${PARAMETERS}`)
  }
  const { socketPath, ssl, 'ssl-ca': authorities } = Object.fromEntries(url.searchParams)
  if (socketPath !== undefined) return { socketPath, user, password, database }
  // An IPv6 address has brackets in a URL, but not in a socket address.
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1').toLowerCase()
  const target = { host, port: Number(url.port || 3306), user, password, database }
  if (ssl !== 'true' && (authorities === undefined || ssl === 'false')) return target
  // The driver doesn't compare addresses with certificates.
  if (isIP(host)) throw new Error(`needs the host name of the certificate, instead of ${host}, to use TLS`)
  const trusted = authorities && { ca: readAuthorities(authorities) }
  return { ...target, ssl: { verifyIdentity: true, ...trusted } }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new Error('has a "%" that encodes no character: write it as %25')
  }
}

function readAuthorities(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new Error(`has an ssl-ca that can't be read: ${(error as Error).message}`)
  }
}

/** A server as shown to an operator. */
export function hostOf({ host, port, socketPath }: Target): string {
  return socketPath ?? `${host}:${port}`
}

/** A database as shown to an operator, without its password. */
export function describeTargets(targets: Targets): string {
  return `${targets[0].database} at ${targets.map(hostOf).join(', ')}`
}

/**
 * Session variables that change what a statement, a COMMIT or a comparison means, with the values that Nth needs: a server
 * may have others as its defaults, or set them for each new connection. Names and values are MySQL's and MariaDB's,
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
} as const satisfies Record<string, string | number>

/** Smallest memory of a sort, in bytes, the default of MySQL: in a few kB, the names of a list don't fit. */
const MIN_SORT_BUFFER = 262_144

/**
 * The statements that give a session its settings, whatever the server's defaults. They come first on each connection: with
 * another `sql_select_limit`, even `show variables` leaves variables out. MariaDB would read a list of 1 000 ids or more as
 * a table, and scan all history of each. MySQL would keep the sizes of tables for a day.
 */
export function sessionSettings(lockWaitS: number): string[] {
  const assignments = Object.entries(SETTINGS).map(
    ([name, value]) => `${name} = ${/^\d+$/.test(String(value)) ? value : `'${value}'`}`,
  )
  return [
    `set session
       ${assignments.join(',\n       ')},
       innodb_lock_wait_timeout = ${integer(lockWaitS)},
       sort_buffer_size = cast(greatest(@@session.sort_buffer_size, ${MIN_SORT_BUFFER}) as unsigned)
       /*M! , in_predicate_conversion_threshold = 0 */
       /*!80000 , information_schema_stats_expiry = 60 */`,
    // No variable above: its names differ between MySQL and MariaDB.
    'set session transaction isolation level read committed, read write',
  ]
}

export async function sendSettings(connection: Connection, lockWaitS = 2): Promise<void> {
  for (const statement of sessionSettings(lockWaitS)) await connection.query(statement)
}

/** Opens a single connection with its settings, within the time limit for connecting, twice. */
export async function openConnection(
  target: Omit<Target, 'database'>,
  { connectTimeoutMs = 10_000, lockWaitS }: { connectTimeoutMs?: number; lockWaitS?: number } = {},
): Promise<Connection> {
  const driver = await createConnection(connectionOptions(target, connectTimeoutMs))
  // Without a listener, the loss of a connection would end the process.
  driver.on('error', () => undefined)
  const connection = new Connection(driver)
  try {
    await withTimeout(connectTimeoutMs, sendSettings(connection, lockWaitS))
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

/** Where a text has selects that aren't part of other statements. */
const SELECTS = /(?<=^|;\n)select\b/g

/** Adds a time limit to the selects of a text, by the server's variables. */
export function limitSelects(text: string, limitMs: number, values: Values): string {
  const isMariaDb = values.has('max_statement_time')
  const milliseconds = integer(Math.ceil(limitMs))
  return text.replace(
    SELECTS,
    isMariaDb
      ? `set statement max_statement_time = ${milliseconds} / 1000 for select`
      : `select /*+ max_execution_time(${milliseconds}) */`,
  )
}

export function connectionOptions(target: Omit<Target, 'database'>, connectTimeoutMs: number) {
  return {
    ...target,
    connectTimeout: connectTimeoutMs,
    enableKeepAlive: true,
    // Milliseconds. Probes also keep routers from dropping the connection; the system's default is often two hours.
    keepAliveInitialDelay: 10_000,
    timezone: 'Z',
    supportBigNumbers: true,
    // Statements have their values in them. The driver would search each text for placeholders, character by character.
    queryFormat: String,
  } satisfies ConnectionOptions
}

/** A row of `show variables` and `show status`. */
export interface Variable {
  Variable_name: string
  Value: string
}

/** Values of variables and status, by name. */
export type Values = ReadonlyMap<string, string>

export function valuesOf(variables: readonly Variable[]): Values {
  return new Map(variables.map(({ Variable_name, Value }) => [Variable_name, String(Value)]))
}

/** The condition of `show variables` and `show status`. Names that the server lacks are left out of the answer. */
export function named(names: readonly string[]): string {
  return `variable_name in (${names.map((name) => `'${name}'`).join(', ')})`
}
