import { isUtf8 } from 'node:buffer'
import { createConnection } from 'mysql2'
import { reasonOf } from '../../connections/errors.ts'
import { assignment, connectionOptions, SETTINGS } from '../../connections/settings.ts'
import type { Target } from '../../connections/target.ts'

/** A cell of a foreign row, as text; null stays null. */
export type ForeignRow = Record<string, string | null>

const CONNECT_TIMEOUT_MS = 10_000
/** Rows that are read ahead. */
const AHEAD = 1000

/** By which that server would leave rows out, or refuse to read them. Its other settings are what the select expects. */
const NO_LIMITS = (['sql_select_limit', 'sql_big_selects'] as const)
  .map((name) => assignment(name, SETTINGS[name]))
  .join(', ')

/** A transaction that is read-only still lets other statements define tables and users, and a select write files. */
const SELECT = /^[\s(]*(select|with)\b/i
const INTO = /\binto\s+(outfile|dumpfile|@)/i

/**
 * Rows of a select on any MySQL or MariaDB, one after another, in a transaction that can't change rows.
 *
 * @throws {Error} if it isn't a select, or fails
 */
export async function* foreignRows(target: Target, statement: string): AsyncGenerator<ForeignRow> {
  if (!SELECT.test(statement) || INTO.test(statement))
    throw new Error(
      '--select must be a select, such as: select title as name, copies as value from booksales',
    )
  const connection = createConnection({
    ...connectionOptions(target, CONNECT_TIMEOUT_MS),
    bigNumberStrings: true,
    dateStrings: true,
    jsonStrings: true,
  })
  connection.on('error', () => undefined)
  try {
    await connection.promise().query(`set session ${NO_LIMITS}`)
    await connection.promise().query('start transaction read only')
    const rows = connection.query(statement).stream({ highWaterMark: AHEAD })
    for await (const row of rows) yield textsIn(row)
  } catch (error) {
    throw new Error(`The database of --from: ${reasonOf(error)}.`, { cause: error })
  } finally {
    connection.destroy()
  }
}

function textsIn(row: Record<string, unknown>): ForeignRow {
  return Object.fromEntries(
    Object.entries(row).map(([column, value]) => [column.toLowerCase(), textIn(column, value)]),
  )
}

function textIn(column: string, value: unknown): string | null {
  if (value == null) return null
  if (!Buffer.isBuffer(value)) return String(value)
  if (isUtf8(value)) return value.toString()
  throw new Error(`a value of the column ${column} is binary, and not UTF-8`)
}
