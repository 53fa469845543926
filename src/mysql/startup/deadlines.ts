import type { Connection } from 'mysql2/promise'
import { Temporal } from 'temporal-polyfill'
import { type Variable, valuesOf } from '../connections/variables.ts'
import { select } from '../select.ts'

/**
 * What follows the time after which a cluster gives up on a silent node, in milliseconds, until another can be written.
 * Measured from `kill -9` of the node, on one machine: Galera 26.4 took 3.5 s with a time of 2 s, Group Replication of
 * MySQL 9.7 21 s with one of 7 s.
 */
const GALERA_ELECTS_MS = 1500
const GROUP_ELECTS_MS = 14_000
/** After so long without a message, a member of Group Replication is suspected. It is not configurable. */
const GROUP_SUSPECTS_MS = 5000

const NAMES = [
  'wsrep_on',
  'wsrep_provider_options',
  'innodb_lock_wait_timeout',
  'group_replication_group_name',
  'group_replication_member_expel_timeout',
]

/** Warns if callers will not wait as long as the cluster likely takes to replace a node, or to end a lock. */
export async function deadlineRisks(connection: Connection, writeTimeoutMs: number): Promise<string[]> {
  const names = NAMES.map((name) => `'${name}'`).join(', ')
  const values = valuesOf(
    await select<Variable>(connection, `show global variables where variable_name in (${names})`),
  )
  const patience = `callers wait for ${writeTimeoutMs / 1000} seconds, then get UNAVAILABLE or OUTCOME_UNKNOWN`
  const risks: string[] = []
  const likelyMs = takeoverMs(values)
  if (likelyMs !== undefined && likelyMs > writeTimeoutMs) {
    const seconds = Math.ceil(likelyMs / 1000)
    risks.push(
      `By its settings, the cluster likely takes ${seconds} seconds to replace a node that fails, but ${patience}. Set NTH_WRITE_TIMEOUT_MS=${(seconds + 5) * 1000}.`,
    )
  }
  const lockS = Number(values.get('innodb_lock_wait_timeout'))
  if (values.get('wsrep_on') === 'ON' && lockS * 1000 > writeTimeoutMs)
    risks.push(
      `A node of Galera sometimes waits for a lock that it should take, for ${lockS} seconds, but ${patience}. Set innodb_lock_wait_timeout=2 in the nodes' configuration.`,
    )
  return risks
}

/** How long a cluster likely takes to replace a node, in milliseconds; undefined: the server is in none. */
function takeoverMs(values: ReadonlyMap<string, string>): number | undefined {
  if (values.get('wsrep_on') === 'ON') {
    const [, suspected = 'PT5S'] =
      /evs\.suspect_timeout = (P[\w.]+)/.exec(values.get('wsrep_provider_options') ?? '') ?? []
    return Temporal.Duration.from(suspected).total('milliseconds') + GALERA_ELECTS_MS
  }
  if (!values.get('group_replication_group_name')) return undefined
  const expelledMs = 1000 * Number(values.get('group_replication_member_expel_timeout') ?? 5)
  return GROUP_SUSPECTS_MS + expelledMs + GROUP_ELECTS_MS
}
