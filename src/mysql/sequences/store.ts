import { keyText } from '../../core/counters/state.ts'
import type { SequenceDefinitionChange } from '../../core/sequences/definition.ts'
import type { Reservation } from '../../core/sequences/state.ts'
import { type SequenceGroupKey, type SequenceKey, sequenceGroupKeyText } from '../../core/sequences/store.ts'
import { type Connection, type Database, retried } from '../connections/database.ts'
import type { FailoverDetector } from '../connections/failover.ts'
import { bytes, integer, list } from '../literals.ts'
import { firstVersion, REVISION_OF_NOW } from '../revisions.ts'
import { createRowCache } from '../rowCache.ts'
import { select, selectByParent } from '../select.ts'
import { type KeyRow, keyIn, RECORD, type RecordRow, recordIn } from './columns.ts'
import { defineSequence, deleteSequence, findOrCreateSequence } from './define.ts'
import { listSequenceGroups, listSequences, readSequenceGroups, readSequences } from './reads.ts'
import { literal, type ReservationRow, readPresent, reservationIn } from './reservations.ts'

export type SequenceStore = ReturnType<typeof openSequenceStore>

export function openSequenceStore(database: Database, definitions: Database, failover: FailoverDetector) {
  return {
    rows: createRowCache(database, failover, {
      textOf: sequenceGroupKeyText,
      read: readRows,
      create: createSequenceGroups,
    }),
    /** Reads the sequences that were ever used or defined, in any order, with one statement. */
    readSequences: retried(database, readSequences),
    /** Reads sequence groups as of an instant, used or not, in any order. */
    readSequenceGroups: retried(database, readSequenceGroups),
    list: retried(database, listSequences),
    listSequenceGroups: retried(database, listSequenceGroups),
    /** Reads the reservations that exist, in any order, with one statement. */
    readReservations: retried(database, readReservations),
    /** Reads the sequence groups of reservations in the same way. */
    readReservationSequenceGroups: retried(database, readGroupsOfReservations),
    /** Changes a definition, one caller at a time, while no numbers are issued. Creates the sequence if missing. */
    define: (key: SequenceKey, change: SequenceDefinitionChange, at: Date, deadline: number) =>
      defineSequence(definitions, key, change, at, deadline),
    delete: (key: SequenceKey) => deleteSequence(definitions, key),
  }
}

async function readRows(connection: Connection, keys: readonly SequenceGroupKey[], incarnation: number) {
  const statement = selectByParent(
    keys,
    ({ namespace, sequence }) => keyText({ namespace, name: sequence }),
    (siblings) =>
      `select ${RECORD}
         from namespace n
         join sequence s on s.namespace_id = n.id
         join sequence_group g on g.sequence_id = s.id
        where n.name = ${bytes(siblings[0].namespace)} and s.name = ${bytes(siblings[0].sequence)}
          and g.name in (${list(siblings, ({ group }) => bytes(group))})`,
  )
  const rows = await select<RecordRow>(connection, statement)
  return new Map(rows.map((row) => [sequenceGroupKeyText(keyIn(row)), recordIn(row, incarnation)]))
}

/** Creates sequence groups, and their sequences where missing. */
async function createSequenceGroups(connection: Connection, keys: readonly SequenceGroupKey[], at: Date) {
  for (const { namespace, sequence, group } of keys) {
    const id = await findOrCreateSequence(connection, { namespace, name: sequence }, at)
    await connection.query(
      `insert into sequence_group (sequence_id, name, identity, revision, is_used)
       values (${integer(id)}, ${bytes(group)}, ${integer(firstVersion())}, ${REVISION_OF_NOW}, false)`,
    )
  }
}

async function readReservations(connection: Connection, tokens: readonly { token: string }[]) {
  const rows = await select<ReservationRow>(connection, readPresent(tokens.map(({ token }) => token)))
  return rows.map((row): Reservation => reservationIn(row))
}

async function readGroupsOfReservations(connection: Connection, tokens: readonly { token: string }[]) {
  const rows = await select<KeyRow & { token: Buffer }>(
    connection,
    `select r.token, n.name as namespace, s.name as sequence, g.name as its_group
       from reservation r
       join sequence_group g on g.id = r.group_id
       join sequence s on s.id = g.sequence_id
       join namespace n on n.id = s.namespace_id
      where r.token in (${list(tokens, ({ token }) => literal(token))})`,
  )
  return rows.map((row) => ({ token: row.token.toString('hex'), group: keyIn(row) }))
}
