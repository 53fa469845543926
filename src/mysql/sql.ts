import { randomInt } from 'node:crypto'
import { type CounterKey, MAX_SEARCHED, type NamePage, type Page, type PageByName } from '../rules/counter.ts'
import { NthError } from '../rules/errors.ts'
import type { Connection } from './connection.ts'

/** Literals in SQL text, all made of digits: no name can end one, under any `sql_mode` or character set. */

export function integer(value: number): string {
  if (!Number.isSafeInteger(value)) throw new RangeError(`${value} is not a safe integer`)
  // Also turns -0 into 0.
  return String(value)
}

/** Bytes, or a text as its UTF-8 bytes. */
export function bytes(value: string | Buffer): string {
  const buffer = typeof value === 'string' ? Buffer.from(value, 'utf8') : value
  return `x'${buffer.toString('hex')}'`
}

export function orNull<Value>(value: Value | null | undefined, literalOf: (value: Value) => string): string {
  return value == null ? 'null' : literalOf(value)
}

/** A list for `in (…)` or `values …`, of at least one item. */
export function list<Item>(items: readonly Item[], literalOf: (item: Item) => string): string {
  return items.map(literalOf).join(', ')
}

const BYTES_16_OR_32 = /^(?:[0-9a-f]{32}){1,2}$/

/** A hash, a salt or a token, in hexadecimal digits. */
export function hex(digits: string): string {
  if (!BYTES_16_OR_32.test(digits)) throw new RangeError(`${digits} is not a hash, a salt or a token`)
  return `x'${digits}'`
}

/** 1970: `never`, in a column without nulls. */
export const EPOCH = '19700101000000'

/** A UTC instant, or milliseconds since 1970, for a `datetime(3)`: `20261120230200.123`. */
export function instant(at: Date | number): string {
  const text = (typeof at === 'number' ? new Date(at) : at).toISOString()
  const date = text.slice(0, 4) + text.slice(5, 7) + text.slice(8, 10)
  return date + text.slice(11, 13) + text.slice(14, 16) + text.slice(17, 23)
}

/**
 * Called before a statement is sent, which has only ASCII characters. Whoever sends for many callers at once divides them
 * where it throws: so nobody counts bytes while composing.
 *
 * @throws {NthError} REQUEST_ENTITY_TOO_LARGE
 */
export function assertFits(statement: string, maxBytes: number): void {
  if (statement.length <= maxBytes) return
  const message = `This needs a statement of ${statement.length} bytes, but the database accepts at most ${maxBytes} (max_allowed_packet); nothing was done. Send less at a time, or raise max_allowed_packet.`
  throw new NthError('REQUEST_ENTITY_TOO_LARGE', message, { limit: maxBytes })
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
    parts.push(await connection.select<Row>(selectFrom(union)))
  }
  return parts.flat()
}

/** The value of an expression. `Value` has its type. */
export async function readValue<Value = number>(connection: Connection, expression: string): Promise<Value> {
  const [row] = await connection.select<{ value: Value }>(`select ${expression} as value`)
  if (!row) throw new Error(`The database returned no value of ${expression}`)
  return row.value
}

/** The time by the database's clock. */
export function timeOf(connection: Connection): Promise<Date> {
  return readValue(connection, 'utc_timestamp(3)')
}

/** A row with the names of a counter or a sequence. */
export type NamedRow = Record<keyof CounterKey, Buffer>

export function nameIn({ namespace, name }: NamedRow): CounterKey {
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
  names: readonly CounterKey[],
  column: string,
  selectOf: (condition: string) => string,
): string {
  const selectSiblings = (siblings: [CounterKey, ...CounterKey[]]) => {
    const listed = list(siblings, ({ name }) => bytes(name))
    return selectOf(`n.name = ${bytes(siblings[0].namespace)} and ${column} in (${listed})`)
  }
  return selectByParent(names, ({ namespace }) => namespace, selectSiblings)
}

/** The names of a list: a column, the tables it is from, which an index has in order, and what limits them to the list. */
interface Names {
  column: string
  from: string
  conditions: readonly string[]
}

/** Lists a page by name, within the names that it may search. */
export async function listByName<Item>(
  connection: Connection,
  { column, from, conditions }: Names,
  page: PageByName,
  list: (page: PageByName) => Promise<Item[]>,
): Promise<NamePage<Item>> {
  if (!page.contains) return { items: await list(page), searchedTo: undefined }
  const range = pageByName(column, { ...page, contains: '', limit: 2 }, conditions)
  const [last, next] = await connection.select<{ name: Buffer }>(
    `select ${column} as name ${from} ${range} offset ${integer(MAX_SEARCHED - 1)}`,
  )
  if (!last || !next) return { items: await list(page), searchedTo: undefined }
  const bound = { [page.fromEnd ? 'after' : 'before']: next.name.toString() }
  return { items: await list({ ...page, ...bound }), searchedTo: last.name.toString() }
}

/** The end of a select of a page by name. */
export function pageByName(column: string, page: PageByName, conditions: readonly string[]): string {
  const { prefix, contains } = page
  const isNamed = prefix === '' ? [] : [`${column} >= ${bytes(prefix)}`, `${column} < ${pastPrefix(prefix)}`]
  const isFound = contains ? [`locate(${folded(bytes(contains))}, ${folded(column)}) > 0`] : []
  return pageBy(column, page, bytes, [...isNamed, ...conditions, ...isFound])
}

/** A name without the difference between upper and lower case. Accents stay. */
function folded(name: string): string {
  return `lower(convert(${name} using utf8mb4) collate utf8mb4_bin)`
}

/** The end of a select of a page in the order of a column. */
export function pageBy<Position>(
  column: string,
  { after, before, limit, fromEnd }: Page<Position>,
  literalOf: (position: Position) => string,
  conditions: readonly string[] = [],
): string {
  const all = [
    ...(after === undefined ? [] : [`${column} > ${literalOf(after)}`]),
    ...(before === undefined ? [] : [`${column} < ${literalOf(before)}`]),
    ...conditions,
  ]
  return `${all.length > 0 ? `where ${all.join(' and ')}` : ''}
      order by ${column} ${fromEnd ? 'desc' : 'asc'}
      limit ${integer(limit)}`
}

/** The first text after all that begin with `prefix`. No byte of UTF-8 is 255, so the last one can be incremented. */
function pastPrefix(prefix: string): string {
  const end = Buffer.from(prefix, 'utf8')
  end[end.length - 1] = (end[end.length - 1] ?? 0) + 1
  return bytes(end)
}

/** Groups values by a key, in the order of each group's first value. */
export function groupBy<Key, Value>(values: readonly Value[], keyOf: (value: Value) => Key) {
  const groups = new Map<Key, [Value, ...Value[]]>()
  for (const value of values) {
    const key = keyOf(value)
    const group = groups.get(key)
    if (group) group.push(value)
    else groups.set(key, [value])
  }
  return groups
}

/** The time by the database's clock, in microseconds since 2020. */
export const REVISION_OF_NOW = "timestampdiff(microsecond, timestamp'2020-01-01 00:00:00', utc_timestamp(6))"

/**
 * Revisions order the states of a counter or sequence group: the higher one is the newer state. A new row begins above the
 * mark, and not before the present time in microseconds since 2020. Each applied call then adds 1, except those that add 0.
 *
 * The mark is the revision of all names without a row. Only the time could fall: the clock may be put back. A deletion
 * raises the mark above what it deletes.
 */
export const MARK = '(select cast(coalesce(max(revision), 0) as unsigned) from revision_mark)'

/**
 * The first revision of a row. The shared lock lasts until the row is committed: otherwise a deletion could raise the mark
 * beyond it before, and readers would see that first. On a cluster, the lock holds on one node only, so this can happen
 * between two nodes, in the instant of the creation, while their clocks differ or have been put back.
 *
 * The mark is the last lock of whoever deletes. A transaction that creates rows takes it after their names: then it waits
 * for no deletion, and they can't deadlock. An import locks more afterwards, and is repeated after a deadlock.
 */
export const FIRST_REVISION = `(select cast(greatest(${REVISION_OF_NOW}, coalesce(max(revision), 0) + 1) as unsigned)
           from revision_mark
           lock in share mode)`

/** Raises the mark to an expression, unless it is there already. */
export function raiseMark(revision: string): string {
  return `update revision_mark set revision = greatest(revision, ${revision})`
}

/**
 * Initial version of a row, chosen at random: after a failover that lost rows, a server reuses their ids, and a process
 * that cached a lost row must not find its version under that id.
 */
export function firstVersion(): number {
  return randomInt(1, 2 ** 31)
}
