import { type Values, type Variable, valuesOf } from '../variables.ts'

/** What a server says of itself and of its cluster. */
export interface Standing {
  /** Identifies its cluster: the state id of a Galera cluster, or the name of a replication group. Empty: none. */
  cluster: string
  /** Identifies the membership of the cluster, as this server sees it. */
  view: string
  /** How many members of the cluster work together with this server, and itself. */
  members: number
  /** How many members it knows of. */
  known: number
  isReadOnly: boolean
  /** Whether it is a node of Galera that is behind the others, or that another node copies. */
  isBehind: boolean
  /** Why it must not be used. */
  problem?: string
}

/** A member of a replication group. */
interface Member {
  id: string
  state: string
  role: string
}

const VARIABLES = ['wsrep_on', 'group_replication_group_name', 'server_uuid']
const READ_ONLY = ['read_only', 'super_read_only', 'innodb_read_only', 'offline_mode']
const STATUS = [
  'wsrep_cluster_status',
  'wsrep_ready',
  'wsrep_local_state',
  'wsrep_local_state_comment',
  'wsrep_cluster_state_uuid',
  'wsrep_cluster_conf_id',
  'wsrep_cluster_size',
]
const MEMBERS = `select member_id as id, member_state as state, member_role as role
  from performance_schema.replication_group_members`

/** States of a Galera node in which it can be used: another node copies it, or it has all that was committed. */
const DONOR = '2'
const SYNCED = '4'

/**
 * Asks a server. It sends only statements that a server answers in any state.
 *
 * @param query sends one statement, and returns its rows
 */
export async function readStanding(query: (statement: string) => Promise<unknown[]>): Promise<Standing> {
  const named = (names: readonly string[]) =>
    `variable_name in (${names.map((name) => `'${name}'`).join(', ')})`
  const variables = await query(`show variables where ${named([...VARIABLES, ...READ_ONLY])}`)
  const status = await query(`show global status where ${named(STATUS)}`)
  const values = valuesOf([...variables, ...status] as Variable[])
  const isReadOnly = READ_ONLY.some((name) => !['OFF', '0'].includes(values.get(name) ?? 'OFF'))
  if (values.get('wsrep_on') === 'ON') return { ...galeraStanding(values), isReadOnly }
  const group = values.get('group_replication_group_name')
  if (!group) return { cluster: '', view: '', members: 1, known: 1, isReadOnly, isBehind: false }
  const members = (await query(MEMBERS).catch(explainMissingRight)) as Member[]
  return { ...groupStanding(group, members, values.get('server_uuid') ?? ''), isReadOnly }
}

function galeraStanding(values: Values): Omit<Standing, 'isReadOnly'> {
  const value = (name: string) => values.get(name) ?? ''
  const state = value('wsrep_local_state')
  const members = Number(value('wsrep_cluster_size'))
  const standing = {
    cluster: value('wsrep_cluster_state_uuid'),
    view: value('wsrep_cluster_conf_id'),
    members,
    known: members,
    isBehind: state !== SYNCED,
  }
  if (value('wsrep_cluster_status') !== 'Primary' || value('wsrep_ready') !== 'ON')
    return { ...standing, problem: 'it has left its Galera cluster' }
  if (state !== DONOR && state !== SYNCED)
    return {
      ...standing,
      problem: `it is not yet in its Galera cluster (${value('wsrep_local_state_comment')})`,
    }
  return standing
}

function groupStanding(group: string, all: Member[], ownId: string): Omit<Standing, 'isReadOnly'> {
  const online = all.filter(({ state }) => state === 'ONLINE')
  const own = all.find(({ id }) => id === ownId)
  const standing = {
    cluster: group,
    view: online
      .map(({ id }) => id)
      .sort()
      .join(' '),
    members: online.length,
    known: all.length,
    isBehind: false,
  }
  if (own?.state !== 'ONLINE')
    return { ...standing, problem: `it is not in its replication group (${own?.state ?? 'OFFLINE'})` }
  if (own.role !== 'PRIMARY') return { ...standing, problem: 'it is a secondary of its replication group' }
  return standing
}

function explainMissingRight(error: Error): never {
  const grant = 'grant select on performance_schema.replication_group_members to its user'
  throw Object.assign(error, { message: `${error.message}; ${grant}` })
}
