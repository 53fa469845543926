import { KNOWN_VARIABLES } from './settings.ts'
import type { Values } from './variables.ts'

/** Identifies a session: its connection, its server, and the run of that server. */
export interface SessionIdentity {
  connectionId: number
  /** Identifies the server: its own id, where it has one, and where it runs. Empty: unknown. */
  server: string
  /** When the server started, by its own clock, in milliseconds since 1970. NaN: unknown. */
  startedAt: number
  /** The server's uptime when the session was opened, in milliseconds. NaN: unknown. */
  uptimeMs: number
  /** State id of the Galera cluster, or name of the replication group, that the server is in. Empty: in none. */
  cluster: string
}

/** MySQL has `server_uuid`; MariaDB has `server_uid`, since 10.11. */
const SERVER_VARIABLES = ['server_uuid', 'server_uid', 'hostname', 'port', 'datadir']

/** Statements that identify a session. `show`, as it skips variables that the server lacks. */
export const READ_IDENTITY = [
  'select connection_id() as id, 1000 * unix_timestamp(now(3)) as now',
  `show variables where variable_name in (${[...KNOWN_VARIABLES, ...SERVER_VARIABLES].map((name) => `'${name}'`).join(', ')})`,
  "show global status where variable_name in ('Uptime', 'wsrep_gcomm_uuid', 'wsrep_cluster_state_uuid')",
]

export function identityIn(own: { id: number; now: string } | undefined, values: Values): SessionIdentity {
  const value = (name: string) => values.get(name) ?? ''
  const isNode = value('wsrep_on') === 'ON'
  const ids = SERVER_VARIABLES.map(value)
  const uptimeMs = 1000 * Number(value('Uptime') || Number.NaN)
  return {
    connectionId: Number(own?.id),
    server: ids.join('') && [...ids, isNode ? value('wsrep_gcomm_uuid') : ''].join(' '),
    startedAt: Number(own?.now) - uptimeMs,
    uptimeMs,
    cluster: isNode ? value('wsrep_cluster_state_uuid') : value('group_replication_group_name'),
  }
}

/** Tolerance: servers report their uptime in whole seconds. */
const ROUNDED_MS = 2000

/** Whether two sessions appear to be on the same run of the same server. */
export function isSameRun(one: SessionIdentity, other: SessionIdentity): boolean {
  return isSameServer(one, other) && Math.abs(one.startedAt - other.startedAt) <= ROUNDED_MS
}

/** Whether that is certain: only then are connection ids comparable. A very short run can resemble the next. */
export function isSurelySameRun(one: SessionIdentity, other: SessionIdentity): boolean {
  return isSameRun(one, other) && one.uptimeMs > 2 * ROUNDED_MS
}

/**
 * Whether a commit in one session is certain to be visible in the other: same server, or same cluster. What a member of a
 * replication group had not sent to the others when it left, it can't commit any more.
 */
export function isSameDatabase(one: SessionIdentity, other: SessionIdentity): boolean {
  return isSameServer(one, other) || (one.cluster !== '' && one.cluster === other.cluster)
}

function isSameServer(one: SessionIdentity, other: SessionIdentity): boolean {
  return one.server !== '' && one.server === other.server
}
