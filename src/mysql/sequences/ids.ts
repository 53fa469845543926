import type { ResultSetHeader } from 'mysql2'
import type { SequenceKey } from '../../core/sequences/store.ts'
import type { Connection } from '../connections/database.ts'
import { findOrCreateNamespace } from '../counters/namespaces.ts'
import { bytes, instant, integer } from '../literals.ts'
import { firstVersion } from '../revisions.ts'
import { select } from '../select.ts'

/** A sequence's id, created if it doesn't exist. Runs within a transaction. */
export async function findOrCreateSequence(connection: Connection, key: SequenceKey, at: Date) {
  const found = await sequenceId(connection, key)
  if (found !== undefined) return found
  const namespace = await findOrCreateNamespace(connection, key.namespace)
  const [{ insertId }] = await connection.query<ResultSetHeader>(
    `insert into sequence (namespace_id, name, version, created_at, time_zone)
     values (${integer(namespace.id)}, ${bytes(key.name)}, ${integer(firstVersion())}, ${instant(at)},
             x'${namespace.time_zone.toString('hex')}')`,
  )
  return insertId
}

export async function sequenceId(connection: Connection, { namespace, name }: SequenceKey) {
  const [row] = await select<{ id: number }>(
    connection,
    `select s.id
       from namespace n
       join sequence s on s.namespace_id = n.id
      where n.name = ${bytes(namespace)} and s.name = ${bytes(name)}`,
  )
  return row?.id
}
