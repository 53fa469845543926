import type { Connection } from 'mysql2/promise'
import { select } from '../select.ts'
import type { Host } from './hosts/hosts.ts'
import { readStanding } from './hosts/standing.ts'
import { CLUSTER_VARIABLES, causalSettings, sessionSettings } from './settings.ts'
import { type Variable, valuesOf } from './variables.ts'

/** Asks a new connection whether its server can be used, and sends it its settings. */
export async function prepare(connection: Connection, host: Host, isCausal: boolean): Promise<void> {
  host.check(await readStanding((statement) => select(connection, statement)))
  for (const statement of sessionSettings({ lockWaitS: 2 })) await connection.query(statement)
  if (!isCausal) return
  const names = CLUSTER_VARIABLES.map((name) => `'${name}'`).join(', ')
  const variables = await select<Variable>(connection, `show variables where variable_name in (${names})`)
  for (const statement of causalSettings(valuesOf(variables))) await connection.query(statement)
}
