import type { ResultSetHeader, RowDataPacket } from 'mysql2'
import type { Window } from '../core/dealing.ts'
import type { Connection } from './database.ts'
import { LostAnswerError } from './errors.ts'
import { instant, integer } from './literals.ts'

/** A row that counts: its table, and the condition that names it. */
export interface CountingRow {
  table: 'counter_value' | 'sequence_value'
  where: string
}

/**
 * Adds `delta` to a row's value if the value lies within `window`, and returns the value before; `undefined`
 * if there is no such row.
 *
 * One statement, so that nothing comes between reading and writing. The assignment to `value` stands last:
 * the ones above it see the old value under every `sql_mode`. The condition stands in the SET clause rather
 * than in WHERE, because a row that WHERE misses tells nothing of its value.
 */
export function add(
  connection: Connection,
  row: CountingRow,
  delta: number,
  window: Window,
  at: Date,
): Promise<number | undefined> {
  const fits = `between ${integer(window.lowest)} and ${integer(window.highest)}`
  return change(
    connection,
    `update ${row.table}
        set revision = revision + (value ${fits}),
            created_at = if(value ${fits}, coalesce(created_at, ${instant(at)}), created_at),
            updated_at = if(value ${fits}, ${instant(at)}, updated_at),
            value = if(cast(last_insert_id(value) as signed) ${fits}, value + ${integer(delta)}, value)
      where ${row.where}`,
  )
}

/** Sets a row's value and returns the value before; `undefined` if there is no such row. */
export function set(
  connection: Connection,
  row: CountingRow,
  to: number,
  at: Date,
): Promise<number | undefined> {
  return change(
    connection,
    `update ${row.table}
        set revision = revision + 1,
            created_at = coalesce(created_at, ${instant(at)}),
            updated_at = ${instant(at)},
            value = cast(last_insert_id(value) as signed) * 0 + ${integer(to)}
      where ${row.where}`,
  )
}

/**
 * Runs a statement that reports a value with LAST_INSERT_ID(expr), and takes it from the OK packet: MySQL
 * Cookbook, "single-row sequence generators".
 *
 * The packet says 0 for the value 0 and also whenever the table has a trigger, so a 0 is looked up in the
 * session, which is right in both cases. (The function is unsigned, hence the casts.)
 */
async function change(connection: Connection, statement: string): Promise<number | undefined> {
  const [result] = await connection.query<ResultSetHeader>(statement)
  if (result.affectedRows === 0) return undefined
  if (result.insertId !== 0) return Number(result.insertId)
  const reading = connection.query<RowDataPacket[]>('select cast(last_insert_id() as signed) as value')
  const [rows] = await reading.catch((cause) => {
    // The change stands, whatever kept its value from being read.
    throw new LostAnswerError('The value of a change could not be read.', { cause })
  })
  return Number(rows[0]?.value)
}
