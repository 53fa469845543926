import type { Connection } from './connection.ts'
import { MisconfiguredDatabaseError, UnusableDatabaseError } from './errors.ts'
import { hostOf, named, type Target, type Values, type Variable, valuesOf } from './settings.ts'

/** What a server says of itself, of its cluster, and of the connection that it answers on. */
export interface ServerStatus {
  connectionId: number
  /** Identifies the server: its own id, where it has one, and where it runs. Empty: unknown. */
  server: string
  /** When the server started, by its own clock, in milliseconds since 1970. NaN: unknown. */
  startedAt: number
  /** How long it has been running, in milliseconds. NaN: unknown. */
  uptimeMs: number
  /** Identifies its cluster: the state id of a Galera cluster, or the name of a replication group. Empty: none. */
  cluster: string
  /** Identifies the membership of the cluster, as this server sees it. */
  view: string
  /** How many members of the cluster work together with this server, and itself. */
  members: number
  knownMembers: number
  isReadOnly: boolean
  /** Whether it is a node of Galera that is behind the others, or that another node copies. */
  isBehind: boolean
  /** Why it must not be used; undefined: it may. */
  problem: string | undefined
  /** The server's variables and status, as far as Nth reads them. What the server lacks is missing. */
  values: Values
}

type ClusterStatus = Pick<
  ServerStatus,
  'cluster' | 'view' | 'members' | 'knownMembers' | 'isBehind' | 'problem'
>

/** A member of a replication group. */
interface Member {
  id: string
  state: string
  role: string
}

/** MySQL has `server_uuid`; MariaDB has `server_uid`, since 10.11. */
const IDENTITY = ['server_uid', 'hostname', 'port', 'datadir', 'server_uuid']
const READ_ONLY = ['read_only', 'super_read_only', 'innodb_read_only', 'offline_mode']
const VARIABLES = [
  'wsrep_on',
  'group_replication_group_name',
  'group_replication_consistency',
  'max_allowed_packet',
  // Of MariaDB only.
  'max_statement_time',
  // The id of the connection, and the time: a node that has left its cluster answers no select.
  'pseudo_thread_id',
  'timestamp',
  ...IDENTITY,
  ...READ_ONLY,
]
const STATUS = [
  'wsrep_cluster_status',
  'wsrep_ready',
  'wsrep_local_state',
  'wsrep_local_state_comment',
  'wsrep_cluster_state_uuid',
  'wsrep_cluster_conf_id',
  'wsrep_cluster_size',
  'wsrep_gcomm_uuid',
  'Uptime',
]
const MEMBERS = `select member_id as id, member_state as state, member_role as role
  from performance_schema.replication_group_members`

/** States of a Galera node in which it can be used: another node copies it, or it has all that was committed. */
const DONOR = '2'
const SYNCED = '4'

type Query = (statement: string) => Promise<unknown[]>

/** Reads the status of a server, with statements that it answers in any state. */
export async function readStatus(query: Query): Promise<ServerStatus> {
  const variables = await query(`show variables where ${named(VARIABLES)}`)
  const status = await query(`show global status where ${named(STATUS)}`)
  // Here and below, the rows have the columns of the statements.
  const values = valuesOf([...variables, ...status] as Variable[])
  const uptimeMs = 1000 * Number(values.get('Uptime') || Number.NaN)
  return {
    connectionId: Number(values.get('pseudo_thread_id')),
    server: serverIn(values),
    startedAt: 1000 * Number(values.get('timestamp')) - uptimeMs,
    uptimeMs,
    isReadOnly: READ_ONLY.some((name) => !['OFF', '0'].includes(values.get(name) ?? 'OFF')),
    values,
    ...(await readCluster(values, query)),
  }
}

export function readStatusOn(connection: Connection): Promise<ServerStatus> {
  return readStatus((statement) => connection.select(statement))
}

function serverIn(values: Values): string {
  const ids = IDENTITY.map((name) => values.get(name) ?? '')
  const node = isGaleraNode(values) ? (values.get('wsrep_gcomm_uuid') ?? '') : ''
  return ids.join('') && [...ids, node].join(' ')
}

export function isGaleraNode(values: Values): boolean {
  return values.get('wsrep_on') === 'ON'
}

async function readCluster(values: Values, query: Query): Promise<ClusterStatus> {
  if (isGaleraNode(values)) return galeraStatus(values)
  const group = values.get('group_replication_group_name')
  if (!group)
    return { cluster: '', view: '', members: 1, knownMembers: 1, isBehind: false, problem: undefined }
  const members = await query(MEMBERS).catch(explainMissingRight)
  return groupStatus(group, members as Member[], values.get('server_uuid') ?? '')
}

function galeraStatus(values: Values): ClusterStatus {
  const value = (name: string) => values.get(name) ?? ''
  const state = value('wsrep_local_state')
  const members = Number(value('wsrep_cluster_size'))
  const [cluster, view] = [value('wsrep_cluster_state_uuid'), value('wsrep_cluster_conf_id')]
  let problem: string | undefined
  if (value('wsrep_cluster_status') !== 'Primary' || value('wsrep_ready') !== 'ON')
    problem = 'it has left its Galera cluster'
  else if (state !== DONOR && state !== SYNCED)
    problem = `it is not yet in its Galera cluster (${value('wsrep_local_state_comment')})`
  return { cluster, view, members, knownMembers: members, isBehind: state !== SYNCED, problem }
}

function groupStatus(group: string, all: Member[], ownId: string): ClusterStatus {
  const online = all.filter(({ state }) => state === 'ONLINE')
  const { state = 'OFFLINE', role } = all.find(({ id }) => id === ownId) ?? {}
  let problem: string | undefined
  if (state !== 'ONLINE') problem = `it is not in its replication group (${state})`
  else if (role !== 'PRIMARY') problem = 'it is a secondary of its replication group'
  const ids = online.map(({ id }) => id).sort()
  const counts = { members: online.length, knownMembers: all.length }
  return { cluster: group, view: ids.join(' '), ...counts, isBehind: false, problem }
}

function explainMissingRight(error: Error): never {
  const grant = 'grant select on performance_schema.replication_group_members to its user'
  throw Object.assign(error, { message: `${error.message}; ${grant}` })
}

/** What identifies the server of a session, and the run of that server. */
export type ServerIdentity = Pick<ServerStatus, 'server' | 'startedAt' | 'uptimeMs' | 'cluster'>

/** Tolerance: servers report their uptime in whole seconds. */
const ROUNDED_MS = 2000

/** Whether two sessions appear to be on the same run of the same server. */
export function isSameRun(a: ServerIdentity, b: ServerIdentity): boolean {
  return isSameServer(a, b) && Math.abs(a.startedAt - b.startedAt) <= ROUNDED_MS
}

/** Whether that is certain: only then are connection ids comparable. A very short run can resemble the next. */
export function isSurelySameRun(a: ServerIdentity, b: ServerIdentity): boolean {
  return isSameRun(a, b) && a.uptimeMs > 2 * ROUNDED_MS
}

/**
 * Whether a commit in one session is certain to be visible in the other: same server, or same cluster. What a member of a
 * replication group had not sent to the others when it left, it can't commit any more.
 */
export function isSameDatabase(a: ServerIdentity, b: ServerIdentity): boolean {
  return isSameServer(a, b) || (a.cluster !== '' && a.cluster === b.cluster)
}

function isSameServer(a: ServerIdentity, b: ServerIdentity): boolean {
  return a.server !== '' && a.server === b.server
}

/** What decides which servers may be used. */
export interface ChoiceRules {
  /** How many servers the database has, by its URL. */
  hosts: number
  /** The cluster that was first reached; empty: it was in none. */
  cluster: string | undefined
}

/** A server that answered, and what it says of itself. */
export interface HostAnswer {
  target: Target
  status: ServerStatus
}

/** Members of a cluster see a change of it one after another: then another query helps. */
export class PartedClusterError extends UnusableDatabaseError {}

const NO_CLUSTER =
  'DATABASE_URL has several servers, but they are not in a Galera cluster or replication group. When one takes over from another, it may lack commits, whose numbers would be issued again. Give one server; a DNS name or a proxy can decide which one it is.'

/** Why a server must not be used; undefined: it may. */
export function problemOf(status: ServerStatus, rules: ChoiceRules): string | undefined {
  const { problem, members, isReadOnly } = status
  const { hosts, cluster } = rules
  if (cluster !== undefined && status.cluster !== cluster)
    return status.cluster === '' ? 'it has left its cluster' : 'it is in another cluster than before'
  if (problem) return problem
  const clusterSize = Math.max(status.knownMembers, hosts)
  if (status.cluster !== '' && members * 2 <= clusterSize)
    return `its cluster has ${members} of ${clusterSize} members, which is not a majority`
  // A server that is alone can still be read.
  if (isReadOnly && (hosts > 1 || status.cluster !== '')) return 'it is read-only'
  return undefined
}

/**
 * Chooses from the servers that may be used, which are at least one. All processes choose alike from the same answers.
 *
 * @param latest the one in use, which is kept while it may be
 * @throws {UnusableDatabaseError} if numbers could be issued twice
 */
export function choose(
  usable: readonly HostAnswer[],
  latest: Target | undefined,
  rules: ChoiceRules,
): HostAnswer {
  const clustered = usable.filter(({ status }) => status.cluster !== '')
  if (clustered.length === 0 && rules.hosts > 1) throw new MisconfiguredDatabaseError(NO_CLUSTER)
  const candidates = clustered.length > 0 ? ofOneView(clustered) : usable
  const current = candidates.filter(({ status }) => !status.isBehind)
  // A server that is behind, as another node copies it, serves if there is no other.
  const best = current.length > 0 ? current : candidates
  return best.find(({ target }) => target === latest) ?? (best[0] as HostAnswer)
}

function ofOneView(clustered: readonly HostAnswer[]): readonly HostAnswer[] {
  const views = new Set(clustered.map(({ status }) => `${status.cluster} ${status.view}`))
  if (views.size === 1) return clustered
  const names = clustered.map(({ target }) => hostOf(target)).join(', ')
  throw new PartedClusterError(`The database servers ${names} disagree about the members of their cluster`)
}
