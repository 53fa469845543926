import type { PageByName } from '../../core/counters/pages.ts'
import type { SequenceKey, SequenceState } from '../../core/sequences/store.ts'
import type { Connection } from '../connections/database.ts'
import { bytes } from '../literals.ts'
import { type NamedRow, nameIn, pageBy, select, selectByName } from '../select.ts'
import { SEQUENCE_COLUMNS, type SequenceDefinitionRow, sequenceDefinitionIn } from './columns.ts'

/** A sequence exists for readers once it is defined, or one of its sequence groups has issued a number. */
export const SEQUENCE_EXISTS = `(s.is_defined or exists (
              select 1
                from sequence_group u
               where u.sequence_id = s.id and u.version > 0))`

const SELECT_SEQUENCES = `select n.name as namespace, s.name, s.created_at, ${SEQUENCE_COLUMNS}
           from namespace n
           join sequence s on s.namespace_id = n.id`

export function readSequences(connection: Connection, keys: readonly SequenceKey[]) {
  const statement = selectByName(
    keys,
    's.name',
    (isNamed) => `${SELECT_SEQUENCES} where ${isNamed} and ${SEQUENCE_EXISTS}`,
  )
  return sequencesIn(connection, statement)
}

export function listSequences(connection: Connection, namespace: string, page: PageByName) {
  const conditions = [`n.name = ${bytes(namespace)}`, SEQUENCE_EXISTS]
  return sequencesIn(connection, `${SELECT_SEQUENCES} ${pageBy('s.name', page, conditions)}`)
}

async function sequencesIn(connection: Connection, statement: string): Promise<SequenceState[]> {
  const rows = await select<SequenceDefinitionRow & NamedRow & { created_at: Date }>(connection, statement)
  return rows.map((row) => ({
    ...nameIn(row),
    definition: sequenceDefinitionIn(row),
    createdAt: row.created_at,
  }))
}
