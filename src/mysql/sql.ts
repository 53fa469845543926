import type { Connection, RowDataPacket } from 'mysql2/promise'
import type { PageByName } from '../core/counters/state.ts'
import { groupBy } from './groupBy.ts'
import { bytes, integer, list } from './literals.ts'

/** Runs a select. `Row` has the types of its columns, as the driver doesn't know them. */
export async function select<Row = unknown>(connection: Connection, statement: string): Promise<Row[]> {
  const [rows] = await connection.query<(Row & RowDataPacket)[]>(statement)
  return rows
}

/** A name in a namespace: of a counter or a sequence. */
interface Named {
  namespace: string
  name: string
}

export type NamedRow = Record<keyof Named, Buffer>

export function nameIn({ namespace, name }: NamedRow): Named {
  return { namespace: namespace.toString(), name: name.toString() }
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

/** The same for names in namespaces. The condition is for the table with alias n, and a column with the names. */
export function selectByName(
  names: readonly Named[],
  column: string,
  selectOf: (condition: string) => string,
): string {
  const selectSiblings = (siblings: [Named, ...Named[]]) => {
    const listed = list(siblings, ({ name }) => bytes(name))
    return selectOf(`n.name = ${bytes(siblings[0].namespace)} and ${column} in (${listed})`)
  }
  return selectByParent(names, ({ namespace }) => namespace, selectSiblings)
}

/** The end of a select of a page by name. */
export function pageBy(column: string, page: PageByName, conditions: readonly string[]): string {
  const { prefix, after, before, limit, fromEnd } = page
  const all = [
    ...(prefix === '' ? [] : [`${column} >= ${bytes(prefix)}`, `${column} < ${pastPrefix(prefix)}`]),
    ...(after === undefined ? [] : [`${column} > ${bytes(after)}`]),
    ...(before === undefined ? [] : [`${column} < ${bytes(before)}`]),
    ...conditions,
  ]
  return `where ${all.join(' and ')}
      order by ${column} ${fromEnd ? 'desc' : 'asc'}
      limit ${integer(limit)}`
}

/** The first text after all that begin with `prefix`. No byte of UTF-8 is 255, so the last one can be incremented. */
function pastPrefix(prefix: string): string {
  const end = Buffer.from(prefix, 'utf8')
  end[end.length - 1] = (end[end.length - 1] ?? 0) + 1
  return bytes(end)
}
