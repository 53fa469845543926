import type { SequenceGroupRow } from '../../core/rows.ts'
import type { SequenceDefinition } from '../../core/sequences/definition.ts'
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
  const definition = sequenceDefinitionIn(row)
  return {
    kind: 'sequenceGroup',
    key: keyOf(id, version, definition),
    group: row.its_group.toString(),
    definition,
    id,
    sequenceId,
    identity,
    incarnation,
    version,
    issuedIn: undefined,
  }
}

/** With the same key, the same statements read the same rows. */
function keyOf(id: number, version: number, { restartEvery, timeZone, gapless }: SequenceDefinition): string {
  return gapless ? `group ${id} version ${version}` : `group ${id} ${restartEvery} ${timeZone}`
}

/** Whether the row of a period is known to exist, and to be stored as the latest, with a definition. */
export function isIssuedIn(row: SequenceGroupRow, periodKey: number, definition: SequenceDefinition) {
  return row.issuedIn?.periodKey === periodKey && row.issuedIn.definition === definition
}

/** Applies its sequence's current definition. False: it needs other rows or statements. */
export function isRenewed(group: SequenceGroupRow, found: SequenceDefinitionRow & { version: number }) {
  const definition = sequenceDefinitionIn(found)
  if (keyOf(group.id, found.version, definition) !== group.key) return false
  group.definition = definition
  group.version = found.version
  return true
}
