// What the users of an ORM write: change the row, then read it, in a transaction.
import { eq, inArray, sql } from 'drizzle-orm'
import { bigint, mysqlTable, varchar } from 'drizzle-orm/mysql-core'
import { drizzle } from 'drizzle-orm/mysql2'
import { serveYoga } from './serve.ts'
import { openTables, tables } from './tables.ts'

const db = drizzle({ client: await openTables() })

const schema = { counter: tableOf(tables.counter), group: tableOf(tables.group) }

await serveYoga({
  async read(kind, names) {
    const table = schema[kind]
    const rows = await db.select().from(table).where(inArray(table.name, names))
    const values = new Map(rows.map(({ name, value }) => [name, value]))
    return names.map((name) => values.get(name) ?? 0)
  },

  add(kind, name) {
    const table = schema[kind]
    return db.transaction(async (tx) => {
      await tx
        .update(table)
        .set({ value: sql`${table.value} + 1` })
        .where(eq(table.name, name))
      const [row] = await tx.select({ value: table.value }).from(table).where(eq(table.name, name))
      return row?.value ?? 0
    })
  },
})

function tableOf(name: string) {
  return mysqlTable(name, {
    name: varchar({ length: 191 }).primaryKey(),
    value: bigint({ mode: 'number' }).notNull(),
  })
}
