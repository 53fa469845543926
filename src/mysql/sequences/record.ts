import type { SequenceGroupRow } from '../../core/rows.ts'
import type { SequenceGroupKey } from '../../core/sequences/store.ts'
import { SEQUENCE_COLUMNS, type SequenceDefinitionRow, sequenceDefinitionIn } from './columns.ts'

/** Columns of a sequence group's record. Table aliases: n, s and g. */
export const RECORD = `n.name as namespace, s.name as sequence, g.name as its_group, g.id, g.identity,
       s.id as sequence_id, s.version, ${SEQUENCE_COLUMNS}`

export type KeyRow = Record<'namespace' | 'sequence' | 'its_group', Buffer>

export type RecordRow = KeyRow &
  SequenceDefinitionRow &
  Record<'id' | 'identity' | 'sequence_id' | 'version', number>

export function keyIn({ namespace, sequence, its_group }: KeyRow): SequenceGroupKey {
  return { namespace: namespace.toString(), sequence: sequence.toString(), group: its_group.toString() }
}

export function recordIn(row: RecordRow, incarnation: number): SequenceGroupRow {
  const { id, identity, version, sequence_id: sequenceId } = row
  return {
    kind: 'sequenceGroup',
    key: `group ${id} version ${version}`,
    group: row.its_group.toString(),
    definition: sequenceDefinitionIn(row),
    id,
    sequenceId,
    identity,
    incarnation,
    version,
    issuedIn: undefined,
  }
}
