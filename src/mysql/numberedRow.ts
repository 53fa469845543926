import type { RowDataPacket } from 'mysql2'
import type { GroupRun } from '../core/groupRun.ts'
import type { SequenceDefinition } from '../core/sequenceDefinition.ts'
import type { GroupRow } from '../core/writer.ts'
import { sequenceDefinitionIn } from './sequenceColumns.ts'

/** A group of a sequence, as a flush names it. */
export interface NumberedRow extends GroupRow {
  id: number
  sequenceId: number
  /** Drawn when it was made: an id that a failover has given to another group has another one. */
  identity: number
  /** Of the origin, when it was looked up. */
  incarnation: number
  /** Of the sequence, as it was looked up or found since. */
  version: number
  /** The period of which it is known that its row is there, and noted as the latest; and how it was numbered then. */
  issuedIn: { periodKey: number; definition: SequenceDefinition } | undefined
}

/** A group, by what its sequence is in some version. */
export function numberedRow(
  given: Pick<NumberedRow, 'id' | 'sequenceId' | 'identity' | 'incarnation' | 'version'>,
  group: string,
  definition: SequenceDefinition,
): NumberedRow {
  return {
    ...given,
    kind: 'group',
    key: keyOf(given.id, given.version, definition),
    sequenceKey: `sequence ${given.sequenceId}`,
    group,
    definition,
    issuedIn: undefined,
  }
}

/** Where that is the same, the same statements read the same rows. */
function keyOf(id: number, version: number, { restartEvery, timeZone, gapless }: SequenceDefinition): string {
  return gapless ? `group ${id} version ${version}` : `group ${id} ${restartEvery} ${timeZone}`
}

/** Takes over what the sequence of a group is now. Returns whether that is enough. */
export function isRenewed(group: NumberedRow, found: RowDataPacket): boolean {
  const definition = sequenceDefinitionIn(found)
  if (keyOf(group.id, found.version, definition) !== group.key) return false
  group.definition = definition
  group.version = found.version
  return true
}

export type NumberedRun = GroupRun<NumberedRow>

/** By period, then by group: that is how their rows are locked. */
export function inOrder({ run: a }: { run: NumberedRun }, { run: b }: { run: NumberedRun }): number {
  return a.periodKey - b.periodKey || a.row.id - b.row.id
}

export function keysOf(some: readonly { run: NumberedRun }[]): string[] {
  return some.map(({ run }) => run.row.key)
}
