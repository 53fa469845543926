import type { ResultSetHeader, RowDataPacket } from 'mysql2'
import {
  type GroupKey,
  type GroupState,
  groupKeyText,
  type SequenceKey,
  type SequenceState,
  type SequenceStore,
  sequenceKeyText,
} from '../core/sequences.ts'
import type { CountingRow } from './counting.ts'
import type { Connection, Database } from './database.ts'
import { type Identity, openNamespace, openRows } from './ids.ts'
import { bytes, instant, integer } from './literals.ts'
import { selectByParent } from './selecting.ts'

export function openSequenceStore(database: Database): SequenceStore<CountingRow> {
  return {
    rows: openRows(database, {
      table: 'sequence_value',
      textOf: groupKeyText,
      find: findGroups,
      make: makeGroups,
    }),
    readSequences: (keys) => database.repeatable((connection) => readSequences(connection, keys)),
    readGroups: (keys) => database.repeatable((connection) => readGroups(connection, keys)),
  }
}

async function findGroups(connection: Connection, keys: readonly GroupKey[]): Promise<Map<string, Identity>> {
  const [rows] = await connection.query<RowDataPacket[]>(
    selectByParent(
      keys,
      ({ namespace, sequence }) => sequenceKeyText({ namespace, name: sequence }),
      (siblings) =>
        `select n.name as namespace, s.name as sequence, g.name, g.id, s.version
           from namespace n
           join sequence s on s.namespace_id = n.id
           join sequence_group g on g.sequence_id = s.id
          where n.name = ${bytes(siblings[0].namespace)} and s.name = ${bytes(siblings[0].sequence)}
            and g.name in (${siblings.map(({ group }) => bytes(group)).join(', ')})`,
    ),
  )
  return new Map(
    rows.map((row) => [
      groupKeyText({
        namespace: row.namespace.toString('utf8'),
        sequence: row.sequence.toString('utf8'),
        group: row.name.toString('utf8'),
      }),
      { id: row.id, version: row.version },
    ]),
  )
}

/** Makes groups with the rows that hold their last numbers, and each one's sequence if this is its first group. */
async function makeGroups(connection: Connection, keys: readonly GroupKey[], at: Date): Promise<void> {
  for (const { namespace, sequence, group } of keys) {
    const { id: namespace_id } = await openNamespace(connection, namespace)
    const { id, version } = await sequenceIdentity(connection, namespace_id, sequence, at)
    const [made] = await connection.query<ResultSetHeader>(
      `insert into sequence_group (sequence_id, name) values (${integer(id)}, ${bytes(group)})`,
    )
    await connection.query(
      `insert into sequence_value (group_id, period_label, version)
       values (${integer(made.insertId)}, 0, ${integer(version)})`,
    )
  }
}

async function sequenceIdentity(
  connection: Connection,
  namespace_id: number,
  name: string,
  at: Date,
): Promise<Identity> {
  const [rows] = await connection.query<RowDataPacket[]>(
    `select id, version from sequence where namespace_id = ${integer(namespace_id)} and name = ${bytes(name)}`,
  )
  const [row] = rows
  if (row) return { id: row.id, version: row.version }
  const [made] = await connection.query<ResultSetHeader>(
    `insert into sequence (namespace_id, name, created_at)
     values (${integer(namespace_id)}, ${bytes(name)}, ${instant(at)})`,
  )
  return { id: made.insertId, version: 1 }
}

async function readSequences(connection: Connection, keys: readonly SequenceKey[]): Promise<SequenceState[]> {
  const [rows] = await connection.query<RowDataPacket[]>(
    selectByParent(
      keys,
      ({ namespace }) => namespace,
      (siblings) =>
        `select n.name as namespace, s.name, s.created_at
           from namespace n
           join sequence s on s.namespace_id = n.id
          where n.name = ${bytes(siblings[0].namespace)}
            and s.name in (${siblings.map(({ name }) => bytes(name)).join(', ')})`,
    ),
  )
  return rows.map((row) => ({
    namespace: row.namespace.toString('utf8'),
    name: row.name.toString('utf8'),
    createdAt: row.created_at,
  }))
}

async function readGroups(connection: Connection, keys: readonly GroupKey[]): Promise<GroupState[]> {
  const [rows] = await connection.query<RowDataPacket[]>(
    selectByParent(
      keys,
      ({ namespace, sequence }) => sequenceKeyText({ namespace, name: sequence }),
      (siblings) =>
        `select n.name as namespace, s.name as sequence, g.name, v.value, v.updated_at
           from namespace n
           join sequence s on s.namespace_id = n.id
           join sequence_group g on g.sequence_id = s.id
           join sequence_value v on v.group_id = g.id and v.period_label = 0
          where n.name = ${bytes(siblings[0].namespace)} and s.name = ${bytes(siblings[0].sequence)}
            and g.name in (${siblings.map(({ group }) => bytes(group)).join(', ')})
            and v.revision > 0`,
    ),
  )
  return rows.map((row) => ({
    namespace: row.namespace.toString('utf8'),
    sequence: row.sequence.toString('utf8'),
    group: row.name.toString('utf8'),
    lastValue: row.value,
    updatedAt: row.updated_at,
  }))
}
