// What textbooks say: change the row, then read it, both in a transaction that lets nobody in between.
import type { PoolConnection, RowDataPacket } from 'mysql2/promise'
import type { Counting } from '../workloads.ts'
import { serveYoga } from './serve.ts'
import { openTables, readRows, tables } from './tables.ts'

const pool = await openTables('set session transaction isolation level serializable')

await serveYoga({
  read: (kind, names) => readRows(pool, kind, names),

  async add(kind, name) {
    const connection = await pool.getConnection()
    try {
      while (true) {
        const value = await addOn(connection, kind, name)
        if (value !== undefined) return value
      }
    } finally {
      connection.release()
    }
  },
})

/** Undefined where another transaction was in the way, and the same must be tried again. */
async function addOn(
  connection: PoolConnection,
  kind: Counting['kind'],
  name: string,
): Promise<number | undefined> {
  try {
    await connection.beginTransaction()
    await connection.execute(`update ${tables[kind]} set value = value + 1 where name = ?`, [name])
    const [[row]] = await connection.execute<RowDataPacket[]>(
      `select value from ${tables[kind]} where name = ?`,
      [name],
    )
    await connection.commit()
    return row?.value
  } catch (error) {
    await connection.rollback()
    if (!isConflict(error)) throw error
    return undefined
  }
}

const LOCK_WAIT_TIMEOUT = 1205
const DEADLOCK = 1213

function isConflict(error: unknown): boolean {
  const { errno = 0 } = error as { errno?: number }
  return [LOCK_WAIT_TIMEOUT, DEADLOCK].includes(errno)
}
