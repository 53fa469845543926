/* Inserts what a backup has into an empty database. Nothing else writes there meanwhile. */
import { definitionColumns, PERIOD_CODES, periodCode, startSecond } from '../commit/periodStatements.ts'
import { codeOf } from '../commit/reservations.ts'
import { COUNTS, NUMBERS } from '../commit/subjectStatements.ts'
import {
  bytes,
  FIRST_REVISION,
  firstVersion,
  hex,
  instant,
  integer,
  list,
  type NamedRow,
  nameIn,
  orNull,
  readValue,
  select,
  selectByName,
  timeOf,
} from '../mysql/sql.ts'
import { type Connection, inTransaction } from '../mysql/transactions.ts'
import { insertKey } from '../repository/apiKeys.ts'
import { readCounterRows } from '../repository/counters.ts'
import { type NamespaceRow, namespaceSet, readNamespaces, retentionOf } from '../repository/namespaces.ts'
import {
  STORED_SEQUENCE,
  type StoredSequenceRow,
  sequenceColumns,
  storedSequenceIn,
} from '../repository/sequenceDefinition.ts'
import { readSequenceGroups } from '../repository/sequences.ts'
import { insertDocuments } from '../repository/trustedDocuments.ts'
import { type CounterKey, keyText, UNBOUNDED } from '../rules/counter.ts'
import type { Entry, EntryOf, EntryType, GroupPeriod } from '../rules/entries.ts'
import { type SequenceGroupKey, sequenceGroupKeyText } from '../rules/sequence.ts'
import { union } from '../rules/sequenceDefinition.ts'
import { createSalt } from '../rules/subjects.ts'

/**
 * Inserts entries of one type, in their order. Rows that exist stay as they are: so a batch may run again, also after
 * `--advance` has moved its numbers on.
 */
export function restoreRows(connection: Connection, entries: readonly Entry[]): Promise<void> {
  const [first] = entries
  if (!first) return Promise.resolve()
  // All entries are of the same type.
  return inTransaction(connection, () => INSERTS[first.type](connection, entries as readonly never[]))
}

const INSERTS: Record<EntryType, (connection: Connection, entries: readonly never[]) => Promise<void>> = {
  namespace: insertNamespaces,
  counter: insertCounters,
  counterHistory: insertHistory,
  sequence: insertSequences,
  sequenceGroup: insertGroups,
  sequenceGroupPeriods: insertPositions,
  reservation: insertReservations,
  counterSubjects: insertCounterSubjects,
  sequenceGroupSubjects: insertGroupSubjects,
  trustedDocument: insertTrustedDocuments,
  apiKey: insertApiKeys,
  idempotencyKey: insertIdempotencyKeys,
}

/** The values of a row's columns, as literals. All rows of an insert have the same columns. */
type Columns = Record<string, string>

/** Length of a statement at which it gets no more rows: far below what any server accepts. */
const STATEMENT_LENGTH = 200_000

/** Inserts the rows that don't exist. */
async function insert(connection: Connection, table: string, rows: readonly Columns[]): Promise<void> {
  const columns = Object.keys(rows[0] ?? {})
  let values = ''
  for (const [index, row] of rows.entries()) {
    values += `${values && ',\n'}(${Object.values(row).join(', ')})`
    if (values.length < STATEMENT_LENGTH && index < rows.length - 1) continue
    await connection.query(
      `insert into ${table} (${columns.join(', ')})
values ${values}
on duplicate key update ${columns[0]} = ${table}.${columns[0]}`,
    )
    values = ''
  }
}

/** Returns a function that finds what belongs to an entry. It throws an error where the file has no line for that. */
function finder<Key, Row>(rows: ReadonlyMap<string, Row>, textOf: (key: Key) => string) {
  return (key: Key): Row => {
    const row = rows.get(textOf(key))
    if (!row) throw new Error(`A line belongs to ${JSON.stringify(key)}, for which no line comes before.`)
    return row
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

/** Finds namespaces. One without a line is created with the defaults. */
async function findNamespaces(connection: Connection, entries: readonly CounterKey[]) {
  const names = [...new Set(entries.map(({ namespace }) => namespace))]
  const readAll = async () =>
    new Map(
      (await readNamespaces(connection, `where n.name in (${list(names, bytes)})`)).map(
        (row): [string, NamespaceRow] => [row.name.toString(), row],
      ),
    )
  const present = await readAll()
  const missing = names.filter((name) => !present.has(name))
  const toRow = (name: string) => ({ name: bytes(name) })
  await insert(connection, 'namespace', missing.map(toRow))
  return finder(missing.length > 0 ? await readAll() : present, (name: string) => name)
}

/** The first revision of new rows: above the mark, which readers may have seen. */
async function firstRevision(connection: Connection): Promise<string> {
  return integer(1 + (await readValue(connection, FIRST_REVISION)))
}

async function findCounters(connection: Connection, entries: readonly CounterKey[]) {
  return finder(await readCounterRows(connection, entries), keyText)
}

async function insertCounters(connection: Connection, entries: readonly EntryOf<'counter'>[]) {
  const namespaceOf = await findNamespaces(connection, entries)
  const definitions = entries.map(({ namespace, name, definition, subjectSalt = createSalt() }) => {
    const { id, time_zone, periods } = namespaceOf(namespace)
    return {
      namespace_id: integer(id),
      name: bytes(name),
      version: integer(firstVersion()),
      subject_salt: hex(subjectSalt),
      ...definitionColumns(definition ?? { ...UNBOUNDED, ...retentionOf(time_zone, periods) }),
    }
  })
  await insert(connection, 'counter', definitions)
  const counters = findCounters(connection, entries)
  const counterOf = await counters
  const [revision, now] = [await firstRevision(connection), await timeOf(connection)]
  const slots = entries.flatMap(({ value, createdAt = now, updatedAt = now, ...key }) => {
    const { id, version, definition } = counterOf(key)
    const row = { counter_id: integer(id), slot: '0', version: integer(version), value: integer(value) }
    const first = {
      ...row,
      revision,
      created_at: instant(createdAt),
      updated_at: orNull(updatedAt, instant),
    }
    const empty = { ...row, value: '0', revision: '0', created_at: 'null', updated_at: 'null' }
    const others = Array.from({ length: definition.slots - 1 }, (_, index) => ({
      ...empty,
      slot: integer(index + 1),
    }))
    return [first, ...others]
  })
  await insert(connection, 'counter_value', slots)
  await insertHistory(connection, entries, counters)
}

/** Also totals of running periods go to the history: the next addition takes them up from there. */
async function insertHistory(
  connection: Connection,
  entries: readonly (EntryOf<'counter'> | EntryOf<'counterHistory'>)[],
  counters = findCounters(connection, entries),
) {
  const counterOf = await counters
  const rows = entries.flatMap(({ history, namespace, name }) => {
    const counter_id = integer(counterOf({ namespace, name }).id)
    return history.map(({ period, start, value }) => ({
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
    const { namespace, name, definition, subjectSalt = createSalt(), hasMigratedRepeats = false } = entry
    const pastFormats = union(entry.formatHistory, entry.pastFormats ?? [])
    return {
      namespace_id: integer(namespaceOf(namespace).id),
      name: bytes(name),
      // Above the first one, so that its groups can have an earlier one.
      version: integer(1 + firstVersion()),
      created_at: instant(entry.createdAt),
      is_defined: String(entry.isDefined),
      subject_salt: hex(subjectSalt),
      ...sequenceColumns({ definition, hasMigratedRepeats, pastFormats }),
    }
  })
  await insert(connection, 'sequence', rows)
}

async function insertGroups(connection: Connection, entries: readonly EntryOf<'sequenceGroup'>[]) {
  const sequences = entries.map(({ namespace, sequence: name }) => ({ namespace, name }))
  const unique = new Map(sequences.map((key) => [keyText(key), key]))
  const found = await select<StoredSequenceRow & NamedRow>(
    connection,
    selectByName(
      [...unique.values()],
      's.name',
      (isNamed) => `select n.name as namespace, s.name, ${STORED_SEQUENCE}, s.subject_salt as salt
       from namespace n
       join sequence s on s.namespace_id = n.id
      where ${isNamed}`,
    ),
  )
  const stored = new Map(found.map((row) => [keyText(nameIn(row)), storedSequenceIn(row)]))
  const sequenceOf = finder(stored, keyText)
  const revision = await firstRevision(connection)
  const rows = entries.map(({ namespace, sequence, group, latest }) => {
    const { id, version, definition } = sequenceOf({ namespace, name: sequence })
    const { format = definition.format, timeZone = definition.timeZone } = latest ?? {}
    // An earlier version is that of numbers that were issued before the last change of the definition.
    const isCurrent = latest?.isCurrent && format === definition.format && timeZone === definition.timeZone
    return {
      sequence_id: integer(id),
      name: bytes(group),
      identity: integer(firstVersion()),
      revision,
      is_used: 'true',
      latest_period_key: latest ? integer(latest.period) : 'null',
      version: latest ? integer(isCurrent ? version : version - 1) : 'null',
      format: latest ? orNull(format, bytes) : 'null',
      time_zone: latest ? bytes(timeZone) : 'null',
    }
  })
  await insert(connection, 'sequence_group', rows)
  await insertPositions(connection, entries)
}

async function findGroups(connection: Connection, entries: readonly SequenceGroupKey[]) {
  const unique = new Map(entries.map((key) => [sequenceGroupKeyText(key), key]))
  return finder(await readSequenceGroups(connection, [...unique.values()]), sequenceGroupKeyText)
}

async function insertPositions(
  connection: Connection,
  entries: readonly (SequenceGroupKey & { periods: readonly GroupPeriod[] })[],
) {
  const groupOf = await findGroups(connection, entries)
  const now = await timeOf(connection)
  const rows = entries.flatMap(({ periods, namespace, sequence, group }) => {
    const { id, identity } = groupOf({ namespace, sequence, group })
    return periods.map(({ period, lastValue, nextValue, generation, createdAt = now, updatedAt = now }) => ({
      group_id: integer(id),
      period_key: integer(period),
      identity: integer(identity),
      value: orNull(lastValue, integer),
      next_value: orNull(nextValue, integer),
      generation: integer(generation),
      created_at: orNull(createdAt, instant),
      updated_at: orNull(updatedAt, instant),
    }))
  })
  await insert(connection, 'sequence_value', rows)
}

async function insertReservations(connection: Connection, entries: readonly EntryOf<'reservation'>[]) {
  const groupOf = await findGroups(connection, entries)
  const rows = entries.map(({ namespace, sequence, group, ...reservation }) => ({
    token: hex(reservation.token),
    group_id: integer(groupOf({ namespace, sequence, group }).id),
    period_key: integer(reservation.period),
    generation: integer(reservation.generation),
    value: integer(reservation.value),
    formatted: bytes(reservation.formatted),
    state: integer(codeOf(reservation.state)),
    is_free: String(reservation.isFree),
    expires_at: instant(reservation.expiresAt),
    closed_at: orNull(reservation.closedAt, instant),
  }))
  await insert(connection, 'reservation', rows)
}

/** @throws {Error} if the row would not find its subjects: their hashes are keyed by its salt */
function assertSalt({ salt }: { salt: string | undefined }, subjectSalt: string, key: object): void {
  if (salt !== subjectSalt)
    throw new Error(`The subjects of ${JSON.stringify(key)} in the file have another salt than the database.`)
}

/** Pairs the columns of a table with the values of a row. */
function columnsOf(names: readonly string[], values: readonly string[]): Columns {
  return Object.fromEntries(names.map((name, index) => [name, values[index] ?? 'null']))
}

async function insertCounterSubjects(connection: Connection, entries: readonly EntryOf<'counterSubjects'>[]) {
  const counterOf = await findCounters(connection, entries)
  const rows = entries.flatMap(({ namespace, name, period, start, subjects, subjectSalt }) => {
    const counter = counterOf({ namespace, name })
    assertSalt(counter, subjectSalt, { namespace, name })
    const since = period === null ? integer(counter.forgottenSecond) : startSecond(start.getTime())
    const place = [integer(counter.id), periodCode(period), since]
    const names = [...COUNTS.key, ...COUNTS.columns]
    return subjects.map((one) => columnsOf(names, [...place, hex(one.subject), ...COUNTS.valuesOf(one)]))
  })
  await insert(connection, COUNTS.table, rows)
}

async function insertGroupSubjects(
  connection: Connection,
  entries: readonly EntryOf<'sequenceGroupSubjects'>[],
) {
  const groupOf = await findGroups(connection, entries)
  const rows = entries.flatMap(({ namespace, sequence, group, period, subjects, subjectSalt }) => {
    const key = { namespace, sequence, group }
    const row = groupOf(key)
    assertSalt(row, subjectSalt, key)
    const place = [integer(row.id), integer(period)]
    const names = [...NUMBERS.key, ...NUMBERS.columns]
    return subjects.map(({ issuedAt, ...one }) => {
      const values = NUMBERS.valuesOf({ ...one, issuedAt: issuedAt.getTime() })
      return columnsOf(names, [...place, hex(one.subject), ...values])
    })
  })
  await insert(connection, NUMBERS.table, rows)
}

async function insertTrustedDocuments(
  connection: Connection,
  entries: readonly EntryOf<'trustedDocument'>[],
) {
  // One by one: each may be long.
  for (const document of entries) await connection.query(insertDocuments([document], document.addedAt))
}

/** With the same ids, where they are free: they are part of callers' identities, to which idempotency keys belong. */
async function insertApiKeys(connection: Connection, entries: readonly EntryOf<'apiKey'>[]) {
  for (const key of entries) {
    const isKey = `hash = ${hex(key.hash)}`
    const present = await select<{ id: number; isSame: number }>(
      connection,
      `select id, ${isKey} as isSame from api_key where ${isKey} or id = ${integer(key.id)}`,
    )
    if (present.some(({ isSame }) => isSame)) continue
    await connection.query(insertKey(key, present.length > 0 ? null : key.id))
  }
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
