import { integer, list } from './literals.ts'
import { type Connection, type Database, inTransaction } from './pool.ts'
import { select } from './sql.ts'

/** What a scheduled job runs with. */
export interface JobContext {
  database: Database
  /** By the database's clock: a process whose clock is ahead must not delete anything too early. */
  now: Date
  /** Called between steps; false: stop. */
  shouldContinue: () => boolean
}

/** Rows that one transaction of a sweep changes: takes a few milliseconds. */
export const BATCH = 500

/** Repeats work until it finds less than a full batch. Returns the number of rows. */
export async function inBatches(
  { database, shouldContinue }: Omit<JobContext, 'now'>,
  work: (connection: Connection) => Promise<number>,
): Promise<number> {
  let total = 0
  while (shouldContinue()) {
    const found = await database.withRetry(work)
    total += found
    if (found < BATCH) break
  }
  return total
}

/** Deletes the rows that a select of at most `BATCH` finds, until there are no more. */
export async function deleteFound<Row>(context: JobContext, find: string, removal: (row: Row) => string) {
  await inBatches(context, async (connection) =>
    deleteEach(connection, (await select<Row>(connection, find)).map(removal)),
  )
}

/** Deletes the rows whose ids a select finds, until there are no more: first what belongs to them, then themselves. */
export async function deleteWithParts(
  { database, shouldContinue }: JobContext,
  { find, table }: { find: string; table: string },
  deleteParts: (idList: string) => Promise<void>,
): Promise<void> {
  while (shouldContinue()) {
    const found = await database.withRetry((connection) => select<{ id: number }>(connection, find))
    if (found.length === 0) return
    const ids = found.map(({ id }) => id)
    await deleteParts(list(ids, integer))
    if (!shouldContinue()) return
    const deletions = ids.map((id) => `delete from ${table} where id = ${integer(id)}`)
    await database.withRetry((connection) => deleteEach(connection, deletions))
  }
}

/** Deletes in one transaction, by full primary keys: otherwise a server may scan, and lock, all of a small table. */
async function deleteEach(connection: Connection, statements: readonly string[]): Promise<number> {
  if (statements.length > 0) await inTransaction(connection, () => executeEach(connection, statements))
  return statements.length
}

export async function executeEach(connection: Connection, statements: readonly string[]): Promise<void> {
  for (const statement of statements) await connection.query(statement)
}
