import type { PageByName } from '../../core/counters/pages.ts'
import type { SequenceKey, SequenceState } from '../../core/sequences/store.ts'
import type { Connection } from '../connections/database.ts'
import { bytes, list } from '../literals.ts'
import { onPage, pageOf, select, selectByParent } from '../select.ts'
import { SEQUENCE_COLUMNS, type SequenceDefinitionRow, sequenceDefinitionIn } from './columns.ts'

const SEQUENCE = `n.name as namespace, s.name, s.created_at, ${SEQUENCE_COLUMNS}`

interface SequenceRow extends SequenceDefinitionRow {
  namespace: Buffer
  name: Buffer
  created_at: Date
}

/** A sequence exists for readers once it is defined, or one of its sequence groups has issued a number. */
export const SEQUENCE_EXISTS = `(s.is_defined or exists (
              select 1
                from sequence_group u
               where u.sequence_id = s.id and u.version > 0))`

export async function readSequences(
  connection: Connection,
  keys: readonly SequenceKey[],
): Promise<SequenceState[]> {
  const rows = await select<SequenceRow>(
    connection,
    selectByParent(
      keys,
      ({ namespace }) => namespace,
      (siblings) =>
        `select ${SEQUENCE}
           from namespace n
           join sequence s on s.namespace_id = n.id
          where n.name = ${bytes(siblings[0].namespace)}
            and s.name in (${list(siblings, ({ name }) => bytes(name))})
            and ${SEQUENCE_EXISTS}`,
    ),
  )
  return rows.map(sequenceFrom)
}

export async function listSequences(
  connection: Connection,
  namespace: string,
  page: PageByName,
): Promise<SequenceState[]> {
  const conditions = [`n.name = ${bytes(namespace)}`, ...onPage('s.name', page), SEQUENCE_EXISTS]
  const rows = await select<SequenceRow>(
    connection,
    `select ${SEQUENCE}
       from namespace n
       join sequence s on s.namespace_id = n.id
      where ${conditions.join(' and ')}
      ${pageOf('s.name', page)}`,
  )
  return rows.map(sequenceFrom)
}

function sequenceFrom(row: SequenceRow): SequenceState {
  return {
    namespace: row.namespace.toString(),
    name: row.name.toString(),
    definition: sequenceDefinitionIn(row),
    createdAt: row.created_at,
  }
}
