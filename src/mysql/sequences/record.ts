import type { SequenceGroupRow } from '../../core/rows.ts'
import type { SequenceDefinition } from '../../core/sequences/definition.ts'
import { type SequenceDefinitionRow, sequenceDefinitionIn } from './columns.ts'

/** A sequence group, as a flush identifies it. */
export interface SequenceGroupRecord extends SequenceGroupRow {
  id: number
  sequenceId: number
  /** Random, set on creation. If a failover reuses the id for another sequence group, this differs. */
  identity: number
  /** Incarnation of the database when the row was read. */
  incarnation: number
  /** Version of the sequence, as last read. */
  version: number
  /** The period whose row is known to exist and is stored as the latest, and its definition then. */
  issuedIn: { periodKey: number; definition: SequenceDefinition } | undefined
}

/** A sequence group under one version of its sequence. */
export function sequenceGroupRecord(
  given: Pick<SequenceGroupRecord, 'id' | 'sequenceId' | 'identity' | 'incarnation' | 'version'>,
  group: string,
  definition: SequenceDefinition,
): SequenceGroupRecord {
  return {
    ...given,
    kind: 'sequenceGroup',
    key: keyOf(given.id, given.version, definition),
    sequenceKey: `sequence ${given.sequenceId}`,
    group,
    definition,
    issuedIn: undefined,
  }
}

/** With the same key, the same statements read the same rows. */
function keyOf(id: number, version: number, { restartEvery, timeZone, gapless }: SequenceDefinition): string {
  return gapless ? `group ${id} version ${version}` : `group ${id} ${restartEvery} ${timeZone}`
}

/** Applies its sequence's current definition. False: it needs other rows or statements. */
export function isRenewed(
  group: SequenceGroupRecord,
  found: SequenceDefinitionRow & { version: number },
): boolean {
  const definition = sequenceDefinitionIn(found)
  if (keyOf(group.id, found.version, definition) !== group.key) return false
  group.definition = definition
  group.version = found.version
  return true
}

/** Lock order of the rows: by period, then by sequence group. */
export function inLockOrder(
  a: { run: { periodKey: number }; row: SequenceGroupRecord },
  b: { run: { periodKey: number }; row: SequenceGroupRecord },
): number {
  return a.run.periodKey - b.run.periodKey || a.row.id - b.row.id
}
