import { keyText } from '../../core/counters/state.ts'
import { NthError } from '../../core/errors.ts'
import type { Rows } from '../../core/rows.ts'
import type { Reservation } from '../../core/sequences/state.ts'
import {
  type SequenceGroupKey,
  type SequenceStore,
  sequenceGroupKeyText,
} from '../../core/sequences/store.ts'
import { type Connection, type Database, retried } from '../connections/database.ts'
import type { FailoverDetector } from '../connections/failover.ts'
import { bytes, integer, list } from '../literals.ts'
import { loadInBatches } from '../loadInBatches.ts'
import { firstVersion, REVISION_OF_NOW } from '../revisions.ts'
import { createRowCache } from '../rowCache.ts'
import { select, selectByParent } from '../select.ts'
import { SEQUENCE_COLUMNS, type SequenceDefinitionRow, sequenceDefinitionIn } from './columns.ts'
import { defineSequence, deleteSequence } from './define.ts'
import { listSequenceGroups, readSequenceGroups } from './groupReads.ts'
import { findOrCreateSequence } from './ids.ts'
import { listSequences, readSequences } from './reads.ts'
import { type SequenceGroupRecord, sequenceGroupRecord } from './record.ts'
import { literal, type ReservationRow, readPresent, reservationIn } from './reservations.ts'

export function openSequenceStore(
  database: Database,
  definitions: Database,
  failover: FailoverDetector,
): SequenceStore {
  const rows = createRowCache(database, failover, {
    textOf: sequenceGroupKeyText,
    read: readRows,
    create: createSequenceGroups,
  })
  return {
    rows,
    rowsOfReservations: reservationRows(database, failover, rows),
    readSequences: retried(database, readSequences),
    readSequenceGroups: retried(database, readSequenceGroups),
    list: retried(database, listSequences),
    listSequenceGroups: retried(database, listSequenceGroups),
    readReservations: retried(database, readReservations),
    readReservationSequenceGroups: retried(database, readReservationSequenceGroups),
    define: (key, change, when) => defineSequence(definitions, key, change, when),
    delete: (key) => deleteSequence(definitions, key),
  }
}

async function readReservations(connection: Connection, tokens: readonly string[]): Promise<Reservation[]> {
  const rows = await select<ReservationRow>(connection, readPresent(tokens))
  return rows.map(reservationIn)
}

async function readReservationSequenceGroups(connection: Connection, tokens: readonly string[]) {
  const rows = await readByToken(connection, tokens)
  return rows.map((row) => ({ token: row.token.toString('hex'), group: keyIn(row) }))
}

const IDENTITY = `n.name as namespace, s.name as sequence, g.name as its_group, g.id, g.identity,
       s.id as sequence_id, s.version, ${SEQUENCE_COLUMNS}`

interface IdentifiedRow extends SequenceDefinitionRow {
  namespace: Buffer
  sequence: Buffer
  its_group: Buffer
  id: number
  identity: number
  sequence_id: number
  version: number
}

async function readRows(
  connection: Connection,
  keys: readonly SequenceGroupKey[],
  incarnation: number,
): Promise<Map<string, SequenceGroupRecord>> {
  const rows = await select<IdentifiedRow>(
    connection,
    selectByParent(
      keys,
      ({ namespace, sequence }) => keyText({ namespace, name: sequence }),
      (siblings) =>
        `select ${IDENTITY}
           from namespace n
           join sequence s on s.namespace_id = n.id
           join sequence_group g on g.sequence_id = s.id
          where n.name = ${bytes(siblings[0].namespace)} and s.name = ${bytes(siblings[0].sequence)}
            and g.name in (${list(siblings, ({ group }) => bytes(group))})`,
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
    const id = await findOrCreateSequence(connection, { namespace, name: sequence }, at)
    await connection.query(
      `insert into sequence_group (sequence_id, name, identity, revision, is_used)
       values (${integer(id)}, ${bytes(group)}, ${integer(firstVersion())}, ${REVISION_OF_NOW}, false)`,
    )
  }
}

/** Finds the sequence groups of reservations. Uses rows that are cached by name. */
function reservationRows(
  database: Database,
  failover: FailoverDetector,
  groups: Rows<SequenceGroupKey, SequenceGroupRecord>,
): Rows<string, SequenceGroupRecord> {
  const load = loadInBatches<string, SequenceGroupRecord>(
    (token) => token,
    (tokens) =>
      database.withRetry(async (connection) => {
        const { incarnation } = failover
        const rows = await readByToken(connection, tokens)
        return new Map(
          rows.map((row) => {
            const loaded = rowIn(row, incarnation)
            const cached = groups.cached(keyIn(row))
            return [row.token.toString('hex'), cached?.key === loaded.key ? cached : loaded]
          }),
        )
      }),
  )
  return {
    load,
    cached: () => undefined,
    async loadOrCreate(token) {
      const row = await load(token)
      if (!row) throw new NthError('NOT_FOUND', 'There is no such reservation.')
      return row
    },
    forget: () => undefined,
  }
}

/** Reads the sequence groups of reservations. */
function readByToken(
  connection: Connection,
  tokens: readonly string[],
): Promise<(IdentifiedRow & { token: Buffer })[]> {
  return select(
    connection,
    `select r.token, ${IDENTITY}
       from reservation r
       join sequence_group g on g.id = r.group_id
       join sequence s on s.id = g.sequence_id
       join namespace n on n.id = s.namespace_id
      where r.token in (${list(tokens, literal)})`,
  )
}

function rowIn(row: IdentifiedRow, incarnation: number): SequenceGroupRecord {
  const { id, identity, version, sequence_id: sequenceId } = row
  const given = { id, sequenceId, identity, incarnation, version }
  return sequenceGroupRecord(given, row.its_group.toString(), sequenceDefinitionIn(row))
}

function keyIn({ namespace, sequence, its_group }: IdentifiedRow): SequenceGroupKey {
  return {
    namespace: namespace.toString(),
    sequence: sequence.toString(),
    group: its_group.toString(),
  }
}
