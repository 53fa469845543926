import type { PoolConnection, RowDataPacket } from 'mysql2/promise'
import type { Answer } from './session.ts'
import { integer, select } from './sql.ts'

export type Connection = PoolConnection

/** Those within a transaction that changes rows: its selects wait for locks. */
export const changing = new WeakSet<object>()

/** Those to nodes of Galera. */
export const galeraConnections = new WeakSet<object>()

/**
 * Sends statements in one text, and returns the answer to each. After one that fails, no other is executed. To a node of
 * Galera, each is sent by itself: if another node aborts the transaction amid a text, the rest of it would be executed.
 */
export async function queryAll(connection: Connection, statements: readonly string[]): Promise<Answer[]> {
  if (statements.length > 1 && !galeraConnections.has(connection.connection)) {
    const [answers] = await connection.query<RowDataPacket[][]>(statements.join(';\n'))
    return answers
  }
  const answers: Answer[] = []
  for (const statement of statements) {
    const [answer] = await connection.query<RowDataPacket[]>(statement)
    answers.push(answer)
  }
  return answers
}

/**
 * Maximum selects of one statement. MariaDB keeps the memory of all until the last one has been executed: 500 with eight
 * subselects each took 200 MB. So it does for the statements of one text.
 */
const MAX_SELECTS = 50

/**
 * Joins any number of selects with the same columns by `union all`, and returns their rows in any order.
 *
 * @param selectFrom a select from some of them
 */
export async function selectAll<Row>(
  connection: Connection,
  selects: readonly string[],
  selectFrom = (union: string) => union,
): Promise<Row[]> {
  const parts: Row[][] = []
  for (let from = 0; from < selects.length; from += MAX_SELECTS) {
    const union = selects.slice(from, from + MAX_SELECTS).join('\nunion all\n')
    parts.push(await select<Row>(connection, selectFrom(union)))
  }
  return parts.flat()
}

/** How long the server keeps the locks of an idle transaction, in seconds: its process may be frozen. */
const IDLE_TRANSACTION_S = 3

/** The statements that begin and end a transaction. */
export const BEGIN = [`set session wait_timeout = ${integer(IDLE_TRANSACTION_S)}`, 'start transaction']
/** Begins a transaction that locks nothing, and reads everything as of this instant. */
export const BEGIN_SNAPSHOT = [
  'set transaction isolation level repeatable read',
  ...BEGIN.slice(0, -1),
  'start transaction with consistent snapshot, read only',
]
const AFTER = 'set session wait_timeout = default'
export const COMMIT = ['commit', AFTER]

/** Begins a transaction, does the work, and commits it; or rolls it back if the work fails. */
export function inTransaction<T>(
  connection: Connection,
  work: () => Promise<T>,
  begin: readonly string[] = BEGIN,
): Promise<T> {
  if (begin === BEGIN) changing.add(connection.connection)
  return orRollBack(connection, async () => {
    await queryAll(connection, begin)
    const result = await work()
    await queryAll(connection, COMMIT)
    return result
  }).finally(() => changing.delete(connection.connection))
}

/** Does work that begins and ends a transaction itself. Rolls it back if the work fails. */
export async function orRollBack<T>(connection: Connection, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    // If even this fails, the connection is lost, and the server rolls the transaction back.
    await queryAll(connection, ['rollback', AFTER]).catch(() => connection.destroy())
    throw error
  }
}
