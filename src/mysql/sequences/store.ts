import type { RowDataPacket } from 'mysql2'
import { NthError } from '../../core/errors.ts'
import type { Rows } from '../../core/rows.ts'

import {
  type SequenceGroupKey,
  type SequenceStore,
  sequenceGroupKeyText,
  sequenceKeyText,
} from '../../core/sequences/store.ts'
import type { Connection, Database } from '../connections/database.ts'
import type { FailoverDetector } from '../connections/failover.ts'
import { bytes, integer } from '../literals.ts'
import { firstVersion, REVISION_OF_NOW } from '../revisions.ts'
import { loadInBatches, openRows } from '../rowCache.ts'
import { selectByParent } from '../select.ts'
import { SEQUENCE_COLUMNS, sequenceDefinitionIn } from './columns.ts'
import { defineSequence, deleteSequence, sequenceIn } from './define.ts'
import { listSequenceGroups, listSequences, readSequenceGroups, readSequences } from './reads.ts'
import { type SequenceGroupRecord, sequenceGroupRecord } from './record.ts'
import { literal, readPresent, reservationIn } from './reservations.ts'

export function openSequenceStore(
  database: Database,
  definitions: Database,
  failover: FailoverDetector,
): SequenceStore {
  const rows = openRows(database, failover, {
    textOf: sequenceGroupKeyText,
    find: findSequenceGroups,
    make: createSequenceGroups,
  })
  return {
    rows,
    rowsOfReservations: openReservationRows(database, failover, rows),
    readSequences: (keys) => database.withRetry((connection) => readSequences(connection, keys)),
    readSequenceGroups: (keys, now) =>
      database.withRetry((connection) => readSequenceGroups(connection, keys, now)),
    list: (namespace, page) => database.withRetry((connection) => listSequences(connection, namespace, page)),
    listSequenceGroups: (sequence, page, now) =>
      database.withRetry((connection) => listSequenceGroups(connection, sequence, page, now)),
    async readReservations(tokens) {
      const [found] = await database.withRetry((connection) =>
        connection.query<RowDataPacket[]>(readPresent(tokens)),
      )
      return found.map(reservationIn)
    },
    readReservationSequenceGroups: (tokens) =>
      database.withRetry(async (connection) =>
        (await readByToken(connection, tokens)).map((row) => ({
          token: row.token.toString('hex'),
          group: keyIn(row),
        })),
      ),
    define: (key, change, when) => defineSequence(definitions, key, change, when),
    delete: (key) => deleteSequence(definitions, key),
  }
}

const IDENTITY = `n.name as namespace, s.name as sequence, g.name as its_group, g.id, g.identity,
       s.id as sequence_id, s.version, ${SEQUENCE_COLUMNS}`

async function findSequenceGroups(
  connection: Connection,
  keys: readonly SequenceGroupKey[],
  incarnation: number,
): Promise<Map<string, SequenceGroupRecord>> {
  const [rows] = await connection.query<RowDataPacket[]>(
    selectByParent(
      keys,
      ({ namespace, sequence }) => sequenceKeyText({ namespace, name: sequence }),
      (siblings) =>
        `select ${IDENTITY}
           from namespace n
           join sequence s on s.namespace_id = n.id
           join sequence_group g on g.sequence_id = s.id
          where n.name = ${bytes(siblings[0].namespace)} and s.name = ${bytes(siblings[0].sequence)}
            and g.name in (${siblings.map(({ group }) => bytes(group)).join(', ')})`,
    ),
  )
  return new Map(rows.map((row) => [sequenceGroupKeyText(keyIn(row)), rowIn(row, incarnation)]))
}

/** Creates sequence groups, and their sequences where missing. */
async function createSequenceGroups(
  connection: Connection,
  keys: readonly SequenceGroupKey[],
  at: Date,
): Promise<void> {
  for (const { namespace, sequence, group } of keys) {
    const id = await sequenceIn(connection, { namespace, name: sequence }, at)
    await connection.query(
      `insert into sequence_group (sequence_id, name, identity, revision, is_used)
       values (${integer(id)}, ${bytes(group)}, ${integer(firstVersion())}, ${REVISION_OF_NOW}, false)`,
    )
  }
}

/** Finds the sequence groups of reservations. Uses rows that are cached by name. */
function openReservationRows(
  database: Database,
  failover: FailoverDetector,
  known: Rows<SequenceGroupKey, SequenceGroupRecord>,
): Rows<string, SequenceGroupRecord> {
  const find = loadInBatches<string, SequenceGroupRecord>(
    (token) => token,
    (asked) => database.withRetry((connection) => findByToken(connection, [...asked.keys()])),
  )

  async function findByToken(
    connection: Connection,
    tokens: readonly string[],
  ): Promise<Map<string, SequenceGroupRecord>> {
    const { incarnation } = failover
    const rows = await readByToken(connection, tokens)
    return new Map(
      rows.map((row) => {
        const found = rowIn(row, incarnation)
        const same = known.cached(keyIn(row))
        return [row.token.toString('hex'), same?.key === found.key ? same : found]
      }),
    )
  }

  return {
    cached: () => undefined,
    load: find,
    async loadOrCreate(token) {
      const row = await find(token)
      if (!row) throw new NthError('NOT_FOUND', 'There is no such reservation.')
      return row
    },
    forget: () => undefined,
  }
}

/** Reads the sequence groups of reservations. */
async function readByToken(connection: Connection, tokens: readonly string[]): Promise<RowDataPacket[]> {
  const [rows] = await connection.query<RowDataPacket[]>(
    `select r.token, ${IDENTITY}
       from reservation r
       join sequence_group g on g.id = r.group_id
       join sequence s on s.id = g.sequence_id
       join namespace n on n.id = s.namespace_id
      where r.token in (${tokens.map(literal).join(', ')})`,
  )
  return rows
}

function rowIn(row: RowDataPacket, incarnation: number): SequenceGroupRecord {
  const { id, identity, version } = row
  const given = { id, sequenceId: row.sequence_id, identity, incarnation, version }
  return sequenceGroupRecord(given, row.its_group.toString('utf8'), sequenceDefinitionIn(row))
}

function keyIn(row: RowDataPacket): SequenceGroupKey {
  return {
    namespace: row.namespace.toString('utf8'),
    sequence: row.sequence.toString('utf8'),
    group: row.its_group.toString('utf8'),
  }
}
