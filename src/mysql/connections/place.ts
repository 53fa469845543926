import type { RowDataPacket } from 'mysql2'

/** Identifies a session: its connection, its server, and the run of that server. */
export interface Place {
  connectionId: number
  /** Identifies the server: its own id, where it has one, and where it runs. Empty: unknown. */
  server: string
  /** When the server started, by its own clock, in milliseconds since 1970. NaN: unknown. */
  startedAt: number
  /** The server's uptime when the session was opened, in milliseconds. NaN: unknown. */
  uptimeMs: number
  /** State id of the Galera cluster that the server is a node of. Empty: not in a cluster. */
  cluster: string
}

const IDENTITY = ['server_uuid', 'server_uid', 'hostname', 'port', 'datadir']

/**
 * Statements that identify a session. Variables in this form, as not every server has each: MySQL has `server_uuid`,
 * MariaDB has `server_uid` since 10.11.
 */
export const ASK_PLACE = [
  'select connection_id() as id, 1000 * unix_timestamp(now(3)) as now',
  `show variables where variable_name in ('wsrep_on', ${quoted(IDENTITY)})`,
  "show global status where variable_name in ('Uptime', 'wsrep_gcomm_uuid', 'wsrep_cluster_state_uuid')",
]

/** Parses the answers to `ASK_PLACE`. */
export function placeIn([identity, variables, status]: readonly RowDataPacket[][]): Place {
  const [known] = identity ?? []
  const variable = valuesIn(variables)
  const statusValue = valuesIn(status)
  const isNode = variable('wsrep_on') === 'ON'
  const ids = IDENTITY.map(variable)
  const uptimeMs = 1000 * Number(statusValue('Uptime') || Number.NaN)
  return {
    connectionId: Number(known?.id),
    server: ids.join('') && [...ids, isNode ? statusValue('wsrep_gcomm_uuid') : ''].join(' '),
    startedAt: Number(known?.now) - uptimeMs,
    uptimeMs,
    cluster: isNode ? statusValue('wsrep_cluster_state_uuid') : '',
  }
}

/** Tolerance: servers report their uptime in whole seconds. */
const ROUNDED_MS = 2000

/** Whether two sessions appear to be on the same run of the same server. */
export function isSameRun(one: Place, other: Place): boolean {
  return isSameServer(one, other) && Math.abs(one.startedAt - other.startedAt) <= ROUNDED_MS
}

/** Whether that is certain: only then are connection ids comparable. A very short run can resemble the next. */
export function isSurelySameRun(one: Place, other: Place): boolean {
  return isSameRun(one, other) && one.uptimeMs > 2 * ROUNDED_MS
}

/** Whether a commit in one place is certain to be visible in the other: same server, or same cluster. */
export function isSameDatabase(one: Place, other: Place): boolean {
  return isSameServer(one, other) || (one.cluster !== '' && one.cluster === other.cluster)
}

function isSameServer(one: Place, other: Place): boolean {
  return one.server !== '' && one.server === other.server
}

function valuesIn(rows: readonly RowDataPacket[] = []): (name: string) => string {
  const values = new Map(rows.map((row) => [row.Variable_name, String(row.Value)]))
  return (name) => values.get(name) ?? ''
}

function quoted(names: readonly string[]): string {
  return names.map((name) => `'${name}'`).join(', ')
}
