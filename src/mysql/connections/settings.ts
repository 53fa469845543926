import type { ConnectionOptions } from 'mysql2'
import { integer } from '../literals.ts'
import type { Target } from './target.ts'
import type { Values } from './variables.ts'

/**
 * Settings of every session, whatever the server's defaults. MariaDB would read a list of 1 000 ids or more as a table,
 * and scan all history of each.
 */
export function sessionSettings({ lockWaitS }: { lockWaitS: number }): string[] {
  return [
    `set session
       sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',
       time_zone = '+00:00',
       innodb_lock_wait_timeout = ${integer(lockWaitS)},
       autocommit = 1,
       group_concat_max_len = 1000000
       /*M! , in_predicate_conversion_threshold = 0 */`,
    // Not in the statement above: the variable's name differs between MySQL and MariaDB.
    'set session transaction isolation level read committed',
  ]
}

/** Variables of clusters, for `show variables`: those that the server lacks are not in its answer. */
export const CLUSTER_VARIABLES = ['wsrep_on', 'group_replication_group_name', 'group_replication_consistency']

/** What `group_replication_consistency` becomes. */
const CAUSAL = { EVENTUAL: 'BEFORE', BEFORE_ON_PRIMARY_FAILOVER: 'BEFORE', AFTER: 'BEFORE_AND_AFTER' }

/**
 * Settings of a session by which its transactions and reads wait until their node of a cluster has all that was committed
 * before on another one. An operator's stricter setting is kept.
 *
 * On Group Replication `BEFORE_ON_PRIMARY_FAILOVER` would not do: for seconds, a primary that is shut down answers reads,
 * and takes itself for the primary, though another one has taken over.
 *
 * @param values of `CLUSTER_VARIABLES`, by name
 */
export function causalSettings(values: Values): string[] {
  if (values.get('wsrep_on') === 'ON') return ['set session wsrep_sync_wait = @@session.wsrep_sync_wait | 7']
  const consistency = CAUSAL[values.get('group_replication_consistency') as keyof typeof CAUSAL]
  return consistency ? [`set session group_replication_consistency = '${consistency}'`] : []
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
  } satisfies ConnectionOptions
}
