import type { ResultSetHeader } from 'mysql2'
import type { SequenceKey } from '../../core/sequences/store.ts'
import { type Connection, inTransaction } from '../connections/database.ts'
import { ER, hasErrorNumber } from '../connections/errors.ts'
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
             ${bytes(namespace.time_zone)})`,
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

/** A sequence's id, created unless `check` throws. Undefined: another session created it. */
export async function createdSequence(connection: Connection, key: SequenceKey, at: Date, check: () => void) {
  const found = await sequenceId(connection, key)
  if (found !== undefined) return found
  check()
  return inTransaction(connection, () => findOrCreateSequence(connection, key, at)).catch((error) => {
    if (hasErrorNumber(error, ER.DUP_ENTRY)) return undefined
    throw error
  })
}
