import type { Connection } from 'mysql2/promise'
import { select } from '../select.ts'
import type { Host } from './hosts/hosts.ts'
import { readStanding } from './hosts/standing.ts'
import { CLUSTER_VARIABLES, causalSettings, sendSettings } from './settings.ts'
import { type Variable, valuesOf } from './variables.ts'

/** Sends a new connection its settings, and asks whether its server can be used. */
export async function prepare(connection: Connection, host: Host, isCausal: boolean): Promise<void> {
  await sendSettings(connection)
  host.check(await readStanding((statement) => select(connection, statement)))
  if (!isCausal) return
  const names = CLUSTER_VARIABLES.map((name) => `'${name}'`).join(', ')
  const variables = await select<Variable>(connection, `show variables where variable_name in (${names})`)
  for (const statement of causalSettings(valuesOf(variables))) await connection.query(statement)
}
