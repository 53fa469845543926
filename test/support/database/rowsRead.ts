import type { PooledConnection } from '../../../src/mysql/pooledConnection.ts'
import type { Target } from '../../../src/mysql/settings.ts'
import { JOINED } from '../../../src/mysql/slots.ts'
import { openTestDatabase } from './database.ts'

/** How many rows the server reads for the selects from a table among statements that were sent, in a session of its own. */
export async function rowsRead(
  target: Target,
  table: string,
  statements: readonly string[],
): Promise<number> {
  const selects = statements
    .flatMap((text) => text.split(';\n'))
    // As they would be without their time limits.
    .map((text) => text.replace(/^set statement .*? for select/, 'select'))
    .filter((text) => text.startsWith('select') && text.includes(table))
  return readsOf(target, async (connection) => {
    for (const text of selects) await connection.query(text)
  })
}

/** How many rows the server reads for some work, in a session of its own. */
export function readsOf(
  target: Target,
  work: (connection: PooledConnection) => Promise<unknown>,
): Promise<number> {
  return openTestDatabase(target).withRetry(JOINED, async (connection) => {
    await connection.query('flush status')
    await work(connection)
    const counts = await connection.select<{ Value: string }>("show session status like 'Handler_read%'")
    return counts.reduce((sum, { Value }) => sum + Number(Value), 0)
  })
}
