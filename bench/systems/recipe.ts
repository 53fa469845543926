// The recipe of the MySQL Cookbook: one statement, which remembers the value that it sets for its connection.
import type { ResultSetHeader } from 'mysql2/promise'
import { serveYoga } from './serve.ts'
import { openTables, readRows, tables } from './tables.ts'

const pool = await openTables()

await serveYoga({
  read: (kind, names) => readRows(pool, kind, names),

  async add(kind, name) {
    const [{ insertId }] = await pool.execute<ResultSetHeader>(
      `update ${tables[kind]}
       set value = last_insert_id(value + 1)
       where name = ?`,
      [name],
    )
    return insertId
  },
})
