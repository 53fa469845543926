import { createConnection } from 'mysql2/promise'
import { onTestFinished } from 'vitest'
import type { Target } from '../../../src/mysql/settings.ts'
import { query } from './database.ts'

/** Holds the row of a counter locked, as somebody's forgotten transaction would. */
export async function hold(target: Target, name: string) {
  const [counter] = await query(target, `select id from counter where name = '${name}'`)
  return holdRows(target, `select * from counter_value where counter_id = ${counter?.id} for update`)
}

/** Holds what a statement locks, until its session rolls back. */
export async function holdRows(target: Target, statement: string) {
  const holder = await createConnection(target)
  onTestFinished(() => holder.destroy())
  await holder.query('begin')
  await holder.query(statement)
  return holder
}
