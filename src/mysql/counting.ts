import type { ValueOperation } from '../core/dealing.ts'
import { type Definition, PLAIN } from '../core/definition.ts'
import type { Row } from '../core/lane.ts'
import { instant, integer } from './literals.ts'

/** `starts_at` of the rows of period 0, all time. */
export const BEGINNING = '19700101000000'

/** A row that counts, as a flush names it. */
export interface CountingRow extends Row {
  table: CountingTable
  id: number
  /** Of the definition that it was looked up with. */
  version: number
}

export type CountingTable = keyof typeof tables

/** In the order in which a flush locks them. */
export const tables = {
  counter_value: { idColumn: 'counter_id', rest: allTime(0) },
  sequence_value: { idColumn: 'group_id', rest: 'period_label = 0' },
} as const

/** The rest of the key of a counter's row of all time. */
export function allTime(slot: number): string {
  return `period = 0 and starts_at = ${BEGINNING} and slot = ${integer(slot)}`
}

/** The row of an id in a table, by the definition of a version. */
export function countingRow(
  table: CountingTable,
  { id, version, definition = PLAIN }: { id: number; version: number; definition?: Definition | undefined },
): CountingRow {
  return { key: `${table} ${id} ${version}`, table, id, version, definition }
}

/**
 * Adds to a row's value, and has the answer carry the value before: MySQL Cookbook, "single-row sequence
 * generators". One statement, so that nothing comes between reading and writing.
 *
 * `affectedRows` says whether the row was there. Where `insertId` is 0 the value may have been 0, or the table
 * may have a trigger. (The function is unsigned, hence the cast.)
 */
export function addReturningOld({ table, id, version }: CountingRow, delta: number, at: Date): string {
  const { idColumn, rest } = tables[table]
  return `update ${table}
   set ${marks(at)},
       value = cast(last_insert_id(value) as signed) + ${integer(delta)}
 where ${idColumn} = ${integer(id)} and ${rest} and version = ${integer(version)}`
}

/** Locks rows of one table, in the order of their key, and reads what they hold. */
export function lock(table: CountingTable, ids: readonly number[]): string {
  const { idColumn, rest } = tables[table]
  // Without the index named, a small table is read, and locked, from one end to the other.
  return `select ${idColumn} as id, version, value
  from ${table} force index (primary)
 where ${idColumn} in (${ids.map(integer).join(', ')}) and ${rest}
 order by ${idColumn}
   for update`
}

/** Does one operation on each of several rows that are locked. */
export function change(
  table: CountingTable,
  ids: readonly number[],
  operation: ValueOperation,
  at: Date,
): string {
  const { idColumn, rest } = tables[table]
  const value = operation.kind === 'set' ? integer(operation.to) : `value + ${integer(operation.delta)}`
  return `update ${table}
   set ${marks(at)},
       value = ${value}
 where ${idColumn} in (${ids.map(integer).join(', ')}) and ${rest}`
}

/** What every change of a value notes beside it. */
export function marks(at: Date): string {
  return `revision = revision + 1, created_at = coalesce(created_at, ${instant(at)}), updated_at = ${instant(at)}`
}
