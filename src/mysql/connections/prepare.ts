import type { Connection } from 'mysql2/promise'
import { select } from '../select.ts'
import type { Host } from './hosts/hosts.ts'
import { readStanding } from './hosts/standing.ts'
import { causalSettings, KNOWN_VARIABLES, maxStatementIn, sendSettings } from './settings.ts'
import { type Variable, valuesOf } from './variables.ts'

/**
 * Sends a new connection its settings, and asks whether its server can be used.
 *
 * @returns the most bytes of a statement
 */
export async function prepare(connection: Connection, host: Host, isCausal: boolean): Promise<number> {
  await sendSettings(connection)
  host.check(await readStanding((statement) => select(connection, statement)))
  const names = KNOWN_VARIABLES.map((name) => `'${name}'`).join(', ')
  const variables = await select<Variable>(connection, `show variables where variable_name in (${names})`)
  const values = valuesOf(variables)
  if (isCausal) for (const statement of causalSettings(values)) await connection.query(statement)
  return maxStatementIn(values)
}
