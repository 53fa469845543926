import { keyText } from '../../../../core/counters/state.ts'
import { defaultSequenceDefinition, type SequenceDefinition } from '../../../../core/sequences/definition.ts'
import { sequenceGroupKeyText } from '../../../../core/sequences/store.ts'
import { isPeriodKey } from '../../../../core/time/periodKey.ts'
import { mergePosition } from '../../../../core/transfer/mergeGroup.ts'
import { OUTCOMES, type Result, refused } from '../../../../core/transfer/outcome.ts'
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
    if (!sequence || !group || foreignPeriod(entry, sequence.definition)) return []
    const merges = entry.periods.map((period) => {
      const present = positions.get(`${group.id} ${period.period}`)
      return { period, merge: mergePosition(sequence.definition, present, period, context) }
    })
    return { entry, sequence, group, positions: merges, result: resultOf(group, merges) }
  })
  if (!context.isDryRun) await writeGroups(context, merged)
  const results = new Map(merged.map((one) => [one.entry, one.result]))
  return entries.map((entry) => {
    const sequence = sequences.get(keyText({ namespace: entry.namespace, name: entry.sequence }))
    const { definition } = sequence ?? { definition: defaultSequenceDefinition('UTC') }
    // In a dry run, the sequence or the group would have been created.
    return foreignPeriod(entry, definition) ?? results.get(entry) ?? assumed(entry, context)
  })
}

/** Numbers of a CSV whose period the sequence doesn't have would have no effect: it has another definition there. */
function foreignPeriod(entry: GroupEntry, { restartEvery }: SequenceDefinition): Result | undefined {
  if (entry.type !== 'sequenceGroup' || !entry.latest || entry.latest.timeZone !== undefined) return undefined
  if (isPeriodKey(entry.latest.period, restartEvery)) return undefined
  const periods = restartEvery === null ? 'does not restart' : `restarts every ${restartEvery.toLowerCase()}`
  return refused(
    `its period is ${entry.latest.period}, and its sequence ${periods} here; define it first as it was, or import JSON Lines`,
  )
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
