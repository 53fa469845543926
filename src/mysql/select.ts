import type { Connection, RowDataPacket } from 'mysql2/promise'
import type { PageByName } from '../core/counters/pages.ts'
import { groupBy } from './groupBy.ts'
import { bytes, integer } from './literals.ts'

/** Runs a select. `Row` has the types of its columns, as the driver doesn't know them. */
export async function select<Row = unknown>(connection: Connection, statement: string): Promise<Row[]> {
  const [rows] = await connection.query<(Row & RowDataPacket)[]>(statement)
  return rows
}

/**
 * One statement for keys of any number of parents: one `select` per parent, joined by `union all`. With a single parent
 * in each `select` the server finds the keys by index, which it doesn't do for `(parent, name) in (…)` over two tables.
 */
export function selectByParent<Key>(
  keys: readonly Key[],
  parentOf: (key: Key) => string,
  selectOf: (siblings: [Key, ...Key[]]) => string,
): string {
  return [...groupBy(keys, parentOf).values()].map(selectOf).join('\nunion all\n')
}

/** Conditions on the names of a page and those behind it. */
export function onPage(column: string, { prefix, after, before }: PageByName): string[] {
  return [
    ...(prefix === '' ? [] : [`${column} >= ${bytes(prefix)}`, `${column} < ${pastPrefix(prefix)}`]),
    ...(after === undefined ? [] : [`${column} > ${bytes(after)}`]),
    ...(before === undefined ? [] : [`${column} < ${bytes(before)}`]),
  ]
}

export function pageOf(column: string, { limit, fromEnd }: PageByName): string {
  return `order by ${column} ${fromEnd ? 'desc' : 'asc'}
      limit ${integer(limit)}`
}

/** The first text after all that begin with `prefix`. No byte of UTF-8 is 255, so the last one can be incremented. */
function pastPrefix(prefix: string): string {
  const end = Buffer.from(prefix, 'utf8')
  end[end.length - 1] = (end[end.length - 1] ?? 0) + 1
  return `x'${end.toString('hex')}'`
}
