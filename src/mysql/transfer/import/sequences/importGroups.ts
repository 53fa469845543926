import { keyText } from '../../../../core/counters/state.ts'
import { defaultSequenceDefinition } from '../../../../core/sequences/definition.ts'
import { sequenceGroupKeyText } from '../../../../core/sequences/store.ts'
import { mergePosition } from '../../../../core/transfer/mergeGroup.ts'
import { OUTCOMES, type Result } from '../../../../core/transfer/outcome.ts'
import type { ImportContext } from '../context.ts'
import { type FoundGroup, findGroups, type GroupEntry, lockPositions, type MergedGroup } from './groupRows.ts'
import { lockSequenceRows } from './sequenceRows.ts'
import { writeGroups } from './writeGroups.ts'

/**
 * Merges sequence groups into present ones. Locks in the order of the flushes: the sequences, shared; gapless groups;
 * the rows of the periods; the groups.
 */
export async function importGroups(
  context: ImportContext,
  entries: readonly GroupEntry[],
): Promise<Result[]> {
  const sequences = await lockSequenceRows(context, entries)
  const groups = await findGroups(context, entries, sequences)
  const positions = await lockPositions(context, entries, groups)
  const merged = entries.flatMap((entry): MergedGroup | [] => {
    const sequence = sequences.get(keyText({ namespace: entry.namespace, name: entry.sequence }))
    const group = groups.get(sequenceGroupKeyText(entry))
    if (!sequence || !group) return []
    const merges = entry.periods.map((period) => {
      const present = positions.get(`${group.id} ${period.period}`)
      return { period, merge: mergePosition(sequence.definition, present, period, context) }
    })
    return { entry, sequence, group, positions: merges, result: resultOf(group, merges) }
  })
  if (!context.isDryRun) await writeGroups(context, merged)
  const results = new Map(merged.map((one) => [one.entry, one.result]))
  // In a dry run, the sequence or the group would have been created.
  return entries.map((entry) => results.get(entry) ?? assumed(entry, context))
}

/** The result for all periods: the one that needs most attention. */
function resultOf(group: FoundGroup, positions: MergedGroup['positions']): Result {
  if (group.isNew) return { outcome: 'created' }
  const results = positions.map(({ merge: { outcome, note } }) => ({
    // A period of its own is no group of its own.
    outcome: outcome === 'created' && group.isUsed ? ('raised' as const) : outcome,
    note,
  }))
  const order = [...ATTENTION, ...OUTCOMES]
  const [first = { outcome: 'unchanged' as const, note: undefined }] = results.toSorted(
    (a, b) => order.indexOf(a.outcome) - order.indexOf(b.outcome),
  )
  return first
}

const ATTENTION: Result['outcome'][] = ['refused', 'lowered', 'raised', 'created', 'kept']

function assumed(entry: GroupEntry, context: ImportContext): Result {
  const definition = defaultSequenceDefinition('UTC')
  const isEmpty = entry.periods.every(
    (period) => mergePosition(definition, undefined, period, context).outcome === 'unchanged',
  )
  return { outcome: entry.type === 'sequenceGroup' || !isEmpty ? 'created' : 'unchanged' }
}
