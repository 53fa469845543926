import type { RowDataPacket } from 'mysql2'

/** Where a session is: as which connection to which run of which server. */
export interface Place {
  connectionId: number
  /** What identifies the server: its own id, where it has one, and where it runs. Empty: unknown. */
  server: string
  /** When the server started, by its own clock, in milliseconds since 1970. NaN: unknown. */
  startedAt: number
  /** For how long it had been running when it was asked, in milliseconds. NaN: unknown. */
  uptimeMs: number
  /** The state of the Galera cluster that the server is a node of. Empty: it is none. */
  cluster: string
}

const IDENTITY = ['server_uuid', 'server_uid', 'hostname', 'port', 'datadir']

/**
 * Asks where a session is. Variables in this form, as not every server has each: MySQL has `server_uuid`, MariaDB
 * `server_uid` from 10.11 on.
 */
export const ASK_PLACE = [
  'select connection_id() as id, 1000 * unix_timestamp(now(3)) as now',
  `show variables where variable_name in ('wsrep_on', ${quoted(IDENTITY)})`,
  "show global status where variable_name in ('Uptime', 'wsrep_gcomm_uuid', 'wsrep_cluster_state_uuid')",
]

/** The place that the rows found by `ASK_PLACE` tell. */
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

/** Servers tell their uptime in whole seconds. */
const ROUNDED_MS = 2000

/** Whether two sessions are of one run of one server, as far as that can be told. */
export function isSameRun(one: Place, other: Place): boolean {
  return isSameServer(one, other) && Math.abs(one.startedAt - other.startedAt) <= ROUNDED_MS
}

/** Whether that is certain: only then do their connection ids compare. A very young run is like the next one. */
export function isSurelySameRun(one: Place, other: Place): boolean {
  return isSameRun(one, other) && one.uptimeMs > 2 * ROUNDED_MS
}

/** Whether what was committed in one place is certainly known in the other: they are one server, or one cluster. */
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
