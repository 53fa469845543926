import { keyText } from '../../core/counters/state.ts'
import {
  type SequenceGroupKey,
  type SequenceStore,
  sequenceGroupKeyText,
} from '../../core/sequences/store.ts'
import { type Connection, type Database, retried } from '../connections/database.ts'
import type { FailoverDetector } from '../connections/failover.ts'
import { bytes, integer, list } from '../literals.ts'
import { firstVersion, REVISION_OF_NOW } from '../revisions.ts'
import { createRowCache } from '../rowCache.ts'
import { select, selectByParent } from '../select.ts'
import { findOrCreateSequence } from './create.ts'
import { defineSequence, deleteSequence } from './define.ts'
import { listSequenceGroups, listSequences, readSequenceGroups, readSequences } from './reads.ts'
import { type KeyRow, keyIn, RECORD, type RecordRow, recordIn } from './record.ts'
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
    readSequences: retried(database, readSequences),
    readSequenceGroups: retried(database, readSequenceGroups),
    list: retried(database, listSequences),
    listSequenceGroups: retried(database, listSequenceGroups),
    readReservations: retried(database, async (connection, tokens: readonly string[]) => {
      const found = await select<ReservationRow>(connection, readPresent(tokens))
      return found.map(reservationIn)
    }),
    readReservationSequenceGroups: retried(database, async (connection, tokens: readonly string[]) => {
      const found = await readByToken(connection, tokens)
      return found.map((row) => ({ token: row.token.toString('hex'), group: keyIn(row) }))
    }),
    define: (key, change, when) => defineSequence(definitions, key, change, when),
    delete: (key) => deleteSequence(definitions, key),
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

function readByToken(connection: Connection, tokens: readonly string[]) {
  return select<KeyRow & { token: Buffer }>(
    connection,
    `select r.token, n.name as namespace, s.name as sequence, g.name as its_group
       from reservation r
       join sequence_group g on g.id = r.group_id
       join sequence s on s.id = g.sequence_id
       join namespace n on n.id = s.namespace_id
      where r.token in (${list(tokens, literal)})`,
  )
}
