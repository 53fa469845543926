import type { Connection } from 'mysql2/promise'
import type { Variable } from '../connections/variables.ts'
import { select } from '../select.ts'

const FLUSH = 'innodb_flush_log_at_trx_commit'

/** Server settings that determine what survives a crash, by name. Those that the server lacks are missing. */
type DurabilitySettings = Readonly<Record<string, string>>

export async function readDurabilitySettings(connection: Connection): Promise<DurabilitySettings> {
  // `wsrep_on` is from Galera. It also exists on a MariaDB that is not in a cluster.
  const rows = await select<Variable>(
    connection,
    `show global variables
      where variable_name in ('${FLUSH}', 'log_bin', 'sync_binlog', 'binlog_format', 'wsrep_on')`,
  )
  return Object.fromEntries(rows.map(({ Variable_name, Value }) => [Variable_name, Value]))
}

/** @throws {Error} if binlog_format = STATEMENT: InnoDB then refuses writes at READ COMMITTED, as in all sessions */
export function assertWritable({ log_bin, binlog_format }: DurabilitySettings): void {
  if (log_bin !== 'ON' || binlog_format !== 'STATEMENT') return
  throw new Error(
    'The database server runs with binlog_format = STATEMENT; every change would fail (error 1665). Set binlog_format = ROW or MIXED in its configuration and restart it.',
  )
}

/** Warnings for an operator: how the server can lose changes whose results were returned. */
export function durabilityRisks(settings: DurabilitySettings): string[] {
  const { [FLUSH]: flush, log_bin, sync_binlog, wsrep_on } = settings
  // A node that rejoins its cluster gets what it lost from the other nodes.
  const isOneNode = wsrep_on !== 'ON'
  const machine = isOneNode ? 'its machine fails' : 'the machines of all nodes fail at once'
  const server = isOneNode ? 'it crashes' : 'all nodes crash at once'
  const risks: string[] = []
  // 3 exists on MariaDB only. It syncs once more than 1.
  if (flush === '0') risks.push(risk(`${FLUSH} = 0`, server, 'of the last second or so', FLUSH))
  if (flush === '2') risks.push(risk(`${FLUSH} = 2`, machine, 'of the last second or so', FLUSH))
  // On restart, a change that InnoDB has on disk is rolled back if it is missing from the binary log.
  if (log_bin === 'ON' && sync_binlog !== undefined && sync_binlog !== '1') {
    const which =
      sync_binlog === '0'
        ? 'that the operating system had not yet written to disk'
        : `of the last ${sync_binlog} group commits`
    risks.push(risk(`log_bin = ON and sync_binlog = ${sync_binlog}`, machine, which, 'sync_binlog'))
  }
  return risks
}

function risk(settings: string, event: string, which: string, variable: string): string {
  return `The database server runs with ${settings}: if ${event}, changes ${which} can be lost after their results were returned, and their numbers reissued. Set ${variable} = 1.`
}
