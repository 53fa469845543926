import { createConnection } from 'mysql2/promise'
import { onTestFinished } from 'vitest'
import type { Target } from '../../../src/mysql/settings.ts'
import { query } from './database.ts'

/** Holds what statements lock, as somebody's forgotten transaction would, until the holder rolls back or ends. */
export async function holdRows(target: Target, ...statements: string[]) {
  const holder = await createConnection(target)
  onTestFinished(() => holder.destroy())
  await holder.query('begin')
  for (const statement of statements) await holder.query(statement)
  return holder
}

/** Holds the row of a counter. */
export async function hold(target: Target, name: string) {
  const [counter] = await query(target, `select id from counter where name = '${name}'`)
  return holdRows(target, `select * from counter_value where counter_id = ${counter?.id} for update`)
}
