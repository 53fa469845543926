import type { Bounds } from '../core/bounds.ts'
import type { ValueOperation } from '../core/dealing.ts'
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
  counter_value: { idColumn: 'counter_id', rest: `period = 0 and starts_at = ${BEGINNING} and slot = 0` },
  sequence_value: { idColumn: 'group_id', rest: 'period_label = 0' },
} as const

/** The row of an id in a table, by the definition of a version. */
export function countingRow(
  table: CountingTable,
  { id, version, bounds }: { id: number; version: number; bounds?: Bounds | undefined },
): CountingRow {
  return { key: `${table} ${id} ${version}`, table, id, version, bounds }
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

/** Locks what is behind a counter's row, where that is to be changed or to go. */
export function lockDefinition({ id }: CountingRow): string[] {
  return [
    `select id from counter force index (primary) where id = ${integer(id)} for update`,
    `select counter_id from counter_rank force index (primary) where counter_id = ${integer(id)} for update`,
  ]
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

/** Gives a counter that is locked other bounds, and a new version to its row and definition. */
export function redefine({ id, version }: CountingRow, bounds: Bounds, at: Date): string[] {
  const { minValue, maxValue, overflow } = bounds
  const { idColumn, rest } = tables.counter_value
  return [
    `update counter
   set min_value = ${integerOrNull(minValue)},
       max_value = ${integerOrNull(maxValue)},
       saturates = ${overflow === 'SATURATE'},
       version = ${integer(version + 1)}
 where id = ${integer(id)}`,
    `update counter_value
   set revision = revision + 1,
       created_at = coalesce(created_at, ${instant(at)}),
       version = ${integer(version + 1)}
 where ${idColumn} = ${integer(id)} and ${rest}`,
  ]
}

/** Removes a counter that is locked, for good: its id is never used again. */
export function remove({ id }: CountingRow): string[] {
  const { idColumn, rest } = tables.counter_value
  return [
    `delete from counter_value where ${idColumn} = ${integer(id)} and ${rest}`,
    `delete from counter where id = ${integer(id)}`,
    `delete from counter_rank where counter_id = ${integer(id)}`,
  ]
}

function marks(at: Date): string {
  return `revision = revision + 1, created_at = coalesce(created_at, ${instant(at)}), updated_at = ${instant(at)}`
}

function integerOrNull(value: number | null): string {
  return value === null ? 'null' : integer(value)
}
