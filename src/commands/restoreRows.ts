/* Inserts what a backup has into an empty database. Nothing else writes there meanwhile. */
import { PART_VALUES, partValues, sumHolds } from '../commit/holdStatements.ts'
import { definitionColumns, PERIOD_CODES, periodCode, startSecond } from '../commit/periodStatements.ts'
import { codeOf } from '../commit/reservations.ts'
import { COUNTS, NUMBERS } from '../commit/subjectStatements.ts'
import type { Connection } from '../mysql/connection.ts'
import type { PooledConnection } from '../mysql/pooledConnection.ts'
import {
  bytes,
  FIRST_REVISION,
  firstVersion,
  hex,
  instant,
  integer,
  type NamedRow,
  nameIn,
  orNull,
  readValue,
  selectByName,
  timeOf,
} from '../mysql/sql.ts'
import { insertKey } from '../repository/apiKeys.ts'
import { readCounterRows } from '../repository/counterRows.ts'
import { namespaceSet, readNamespaces, retentionOf } from '../repository/namespaces.ts'
import {
  STORED_SEQUENCE,
  type StoredSequenceRow,
  sequenceColumns,
  storedSequenceIn,
} from '../repository/sequenceDefinition.ts'
import { readSequenceGroups } from '../repository/sequences.ts'
import { insertDocuments } from '../repository/trustedDocuments.ts'
import { type CounterKey, keyText, UNBOUNDED } from '../rules/counter.ts'
import type { Entry, EntryOf, EntryType } from '../rules/entries.ts'
import { type SequenceGroupKey, sequenceGroupKeyText } from '../rules/sequence.ts'
import { union } from '../rules/sequenceDefinition.ts'
import { createSalt } from '../rules/subjects.ts'
import { described } from './source.ts'

/**
 * Inserts entries of one type, in their order. Rows that exist stay as they are: so a batch may run again, also after
 * `--advance` has moved its numbers on.
 */
export async function restoreRows(connection: PooledConnection, entries: readonly Entry[]): Promise<void> {
  const [first] = entries
  // All entries are of the type of the first one.
  if (first)
    await connection.inTransaction(() => INSERTS[first.type](connection, entries as readonly never[]))
}

const INSERTS: Record<EntryType, (connection: Connection, entries: readonly never[]) => Promise<void>> = {
  namespace: insertNamespaces,
  counter: insertCounters,
  counterHistory: insertHistory,
  sequence: insertSequences,
  sequenceGroup: insertGroups,
  sequenceGroupPeriods: insertPositions,
  reservation: insertReservations,
  hold: insertHolds,
  counterSubjects: insertCounterSubjects,
  sequenceGroupSubjects: insertGroupSubjects,
  trustedDocument: insertTrustedDocuments,
  apiKey: insertApiKeys,
  idempotencyKey: insertIdempotencyKeys,
}

/** Length of a statement at which it gets no more rows: far below what any server accepts. */
const STATEMENT_LENGTH = 200_000

/** Inserts the rows that don't exist, given as the values of columns, as literals. */
async function insertValues(
  connection: Connection,
  table: string,
  columns: readonly string[],
  rows: readonly (readonly string[])[],
): Promise<void> {
  let values = ''
  for (const [index, row] of rows.entries()) {
    values += `${values && ',\n'}(${row.join(', ')})`
    if (values.length < STATEMENT_LENGTH && index < rows.length - 1) continue
    await connection.query(
      `insert into ${table} (${columns.join(', ')})
values ${values}
on duplicate key update ${columns[0]} = ${table}.${columns[0]}`,
    )
    values = ''
  }
}

/** Inserts rows with the same columns, by the names of these. */
function insert(
  connection: Connection,
  table: string,
  rows: readonly Record<string, string>[],
): Promise<void> {
  return insertValues(connection, table, Object.keys(rows[0] ?? {}), rows.map(Object.values))
}

/**
 * Returns a function that finds the row to which an entry belongs.
 *
 * @throws {Error} from that function, if no line of the file has created it
 */
function finder<Key, Row>(rows: ReadonlyMap<string, Row>, textOf: (key: Key) => string) {
  return (entry: Entry & Key): Row => {
    const row = rows.get(textOf(entry))
    if (row) return row
    throw new Error(`${described(entry)}: no line before has what this line belongs to.`)
  }
}

async function insertNamespaces(connection: Connection, entries: readonly EntryOf<'namespace'>[]) {
  // A scheduled job fills the leaderboards.
  for (const { name, leaderboards = [], ...retention } of entries)
    await connection.query(
      `insert into namespace
   set name = ${bytes(name)},
       ${namespaceSet({ ...retention, leaderboards, filled: [] })}
    on duplicate key update name = namespace.name`,
    )
}

/** Finds the namespaces of entries. One without a line is created with the defaults. */
async function findNamespaces(connection: Connection, entries: readonly CounterKey[]) {
  const names = [...new Set(entries.map(({ namespace }) => bytes(namespace)))]
  const readAll = () => readNamespaces(connection, `where n.name in (${names.join(', ')})`)
  let rows = await readAll()
  if (rows.length < names.length) {
    const missing = names.map((name) => ({ name }))
    await insert(connection, 'namespace', missing)
    rows = await readAll()
  }
  const named = new Map(rows.map((row) => [row.name.toString(), row]))
  return finder(named, ({ namespace }: CounterKey) => namespace)
}

/** The revision of new rows: above the mark, which readers may have seen. */
async function firstRevision(connection: Connection): Promise<string> {
  return integer(1 + (await readValue(connection, FIRST_REVISION)))
}

async function findCounters(connection: Connection, entries: readonly CounterKey[]) {
  return finder(await readCounterRows(connection, entries), keyText)
}

async function insertCounters(connection: Connection, entries: readonly EntryOf<'counter'>[]) {
  const namespaceOf = await findNamespaces(connection, entries)
  const counters = entries.map((entry) => {
    const { id, time_zone, periods } = namespaceOf(entry)
    const { definition = { ...UNBOUNDED, ...retentionOf(time_zone, periods) } } = entry
    return {
      namespace_id: integer(id),
      name: bytes(entry.name),
      version: integer(firstVersion()),
      subject_salt: hex(entry.subjectSalt ?? createSalt()),
      ...definitionColumns(definition),
    }
  })
  await insert(connection, 'counter', counters)
  const counterOf = await findCounters(connection, entries)
  const [revision, now] = [await firstRevision(connection), await timeOf(connection)]
  const values = entries.flatMap((entry) => {
    const { id, version, definition } = counterOf(entry)
    const { value, createdAt = now, updatedAt = now, heldAt } = entry
    return Array.from({ length: definition.slots }, (_, slot) => ({
      counter_id: integer(id),
      slot: integer(slot),
      version: integer(version),
      value: slot === 0 ? integer(value) : '0',
      revision: slot === 0 ? revision : '0',
      created_at: slot === 0 ? instant(createdAt) : 'null',
      updated_at: slot === 0 ? orNull(updatedAt, instant) : 'null',
      held_at: slot === 0 && heldAt ? integer(heldAt.getTime()) : '0',
    }))
  })
  await insert(connection, 'counter_value', values)
  await insertHistory(connection, entries, counterOf)
}

/** Inserts also totals of running periods: the next addition takes them up from the history. */
async function insertHistory(
  connection: Connection,
  entries: readonly EntryOf<'counter' | 'counterHistory'>[],
  counters?: Awaited<ReturnType<typeof findCounters>>,
) {
  const counterOf = counters ?? (await findCounters(connection, entries))
  const rows = entries.flatMap((entry) => {
    const counter_id = integer(counterOf(entry).id)
    return entry.history.map(({ period, start, value }) => ({
      counter_id,
      period: integer(PERIOD_CODES[period]),
      start: integer(start),
      value: String(value),
    }))
  })
  await insert(connection, 'counter_history', rows)
}

async function insertSequences(connection: Connection, entries: readonly EntryOf<'sequence'>[]) {
  const namespaceOf = await findNamespaces(connection, entries)
  const rows = entries.map((entry) => {
    const { definition, hasMigratedRepeats = false } = entry
    const pastFormats = union(entry.formatHistory, entry.pastFormats ?? [])
    return {
      namespace_id: integer(namespaceOf(entry).id),
      name: bytes(entry.name),
      // Above the first one, so that its groups can have an earlier one.
      version: integer(1 + firstVersion()),
      created_at: instant(entry.createdAt),
      is_defined: String(entry.isDefined),
      subject_salt: hex(entry.subjectSalt ?? createSalt()),
      ...sequenceColumns({ definition, hasMigratedRepeats, pastFormats }),
    }
  })
  await insert(connection, 'sequence', rows)
}

async function findSequences(connection: Connection, entries: readonly EntryOf<'sequenceGroup'>[]) {
  const named = entries.map(({ namespace, sequence: name }) => ({ namespace, name }))
  const selectNamed = (isNamed: string) =>
    `select n.name as namespace, s.name, ${STORED_SEQUENCE}, s.subject_salt as salt
       from namespace n
       join sequence s on s.namespace_id = n.id
      where ${isNamed}`
  const statement = selectByName(named, 's.name', selectNamed)
  const rows = await connection.select<StoredSequenceRow & NamedRow>(statement)
  const sequences = new Map(rows.map((row) => [keyText(nameIn(row)), storedSequenceIn(row)]))
  return finder(sequences, ({ namespace, sequence: name }: SequenceGroupKey) => keyText({ namespace, name }))
}

async function insertGroups(connection: Connection, entries: readonly EntryOf<'sequenceGroup'>[]) {
  const sequenceOf = await findSequences(connection, entries)
  const revision = await firstRevision(connection)
  const rows = entries.map((entry) => {
    const { id, version, definition } = sequenceOf(entry)
    const { period, format = null, timeZone, isCurrent } = entry.latest ?? {}
    const isUnchanged = isCurrent && format === definition.format && timeZone === definition.timeZone
    // An earlier one, if the sequence was redefined since its latest number. None, if that was not issued.
    const issued = timeZone === undefined ? undefined : isUnchanged ? version : version - 1
    return {
      sequence_id: integer(id),
      name: bytes(entry.group),
      identity: integer(firstVersion()),
      revision,
      is_used: 'true',
      latest_period_key: orNull(period, integer),
      version: orNull(issued, integer),
      format: orNull(format, bytes),
      time_zone: orNull(timeZone, bytes),
    }
  })
  await insert(connection, 'sequence_group', rows)
  await insertPositions(connection, entries)
}

async function findGroups(connection: Connection, entries: readonly SequenceGroupKey[]) {
  return finder(await readSequenceGroups(connection, entries), sequenceGroupKeyText)
}

async function insertPositions(
  connection: Connection,
  entries: readonly EntryOf<'sequenceGroup' | 'sequenceGroupPeriods'>[],
) {
  const groupOf = await findGroups(connection, entries)
  const now = await timeOf(connection)
  const rows = entries.flatMap((entry) => {
    const { id, identity } = groupOf(entry)
    return entry.periods.map(({ period, generation, ...position }) => ({
      group_id: integer(id),
      period_key: integer(period),
      identity: integer(identity),
      value: orNull(position.lastValue, integer),
      next_value: orNull(position.nextValue, integer),
      generation: integer(generation),
      created_at: orNull(position.createdAt === undefined ? now : position.createdAt, instant),
      updated_at: orNull(position.updatedAt === undefined ? now : position.updatedAt, instant),
    }))
  })
  await insert(connection, 'sequence_value', rows)
}

async function insertReservations(connection: Connection, entries: readonly EntryOf<'reservation'>[]) {
  const groupOf = await findGroups(connection, entries)
  const rows = entries.map((entry) => ({
    token: hex(entry.token),
    group_id: integer(groupOf(entry).id),
    period_key: integer(entry.period),
    generation: integer(entry.generation),
    value: integer(entry.value),
    formatted: bytes(entry.formatted),
    state: integer(codeOf(entry.state)),
    is_free: String(entry.isFree),
    expires_at: instant(entry.expiresAt),
    closed_at: orNull(entry.closedAt, instant),
  }))
  await insert(connection, 'reservation', rows)
}

/** Inserts parts of holds, and sums what their counters hold then. */
async function insertHolds(connection: Connection, entries: readonly EntryOf<'hold'>[]) {
  const counterOf = await findCounters(connection, entries)
  const rows = entries.map((entry) => {
    const times = { expiresAt: entry.expiresAt.getTime(), latest: entry.latest.getTime() }
    return partValues(entry.token, counterOf(entry).id, { ...entry, ...times })
  })
  await insertValues(
    connection,
    'hold',
    PART_VALUES,
    rows.map((row) => [row]),
  )
  const ids = new Set(entries.map((entry) => counterOf(entry).id))
  for (const id of ids) await connection.query(sumHolds(id))
}

async function insertCounterSubjects(connection: Connection, entries: readonly EntryOf<'counterSubjects'>[]) {
  const counterOf = await findCounters(connection, entries)
  const rows = entries.flatMap((entry) => {
    const { id, forgottenSecond } = counterOf(entry)
    const { period, start, subjects } = entry
    const since = period === null ? integer(forgottenSecond) : startSecond(start.getTime())
    const place = [integer(id), periodCode(period), since]
    return subjects.map((record) => [...place, hex(record.subject), ...COUNTS.valuesOf(record)])
  })
  await insertValues(connection, COUNTS.table, [...COUNTS.key, ...COUNTS.columns], rows)
}

async function insertGroupSubjects(
  connection: Connection,
  entries: readonly EntryOf<'sequenceGroupSubjects'>[],
) {
  const groupOf = await findGroups(connection, entries)
  const rows = entries.flatMap((entry) => {
    const place = [integer(groupOf(entry).id), integer(entry.period)]
    return entry.subjects.map(({ issuedAt, ...record }) => {
      const values = NUMBERS.valuesOf({ ...record, issuedAt: issuedAt.getTime() })
      return [...place, hex(record.subject), ...values]
    })
  })
  await insertValues(connection, NUMBERS.table, [...NUMBERS.key, ...NUMBERS.columns], rows)
}

async function insertTrustedDocuments(
  connection: Connection,
  entries: readonly EntryOf<'trustedDocument'>[],
) {
  // Documents go one by one: each may be long.
  for (const document of entries) await connection.query(insertDocuments([document], document.addedAt))
}

/** With the same ids: they are part of callers' identities, to which idempotency keys belong. */
async function insertApiKeys(connection: Connection, entries: readonly EntryOf<'apiKey'>[]) {
  for (const key of entries)
    await connection.query(`${insertKey(key, key.id)} on duplicate key update hash = api_key.hash`)
}

async function insertIdempotencyKeys(connection: Connection, entries: readonly EntryOf<'idempotencyKey'>[]) {
  const rows = entries.map(({ hash, fingerprint, results, appliedAt, claimedAt }) => ({
    hash: hex(hash),
    fingerprint: hex(fingerprint),
    results: bytes(JSON.stringify(results)),
    applied_at: instant(appliedAt),
    claimed_at: instant(claimedAt),
  }))
  await insert(connection, 'idempotency_key', rows)
}
