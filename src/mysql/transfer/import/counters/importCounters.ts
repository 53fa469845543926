import { keyText } from '../../../../core/counters/state.ts'
import type { CounterEntry, CounterHistoryEntry } from '../../../../core/transfer/entries.ts'
import { mergeCounter, mergeHistory } from '../../../../core/transfer/mergeCounter.ts'
import type { Result } from '../../../../core/transfer/outcome.ts'
import { findNamespaces, type ImportContext } from '../context.ts'
import { lockCounters, type MergedCounter } from './counterRows.ts'
import { writeCounters } from './writeCounters.ts'

/**
 * Merges counters into present ones. Locks the rows of the values in the order of their ids, as flushes do, then the
 * history and the leaderboard: only the holder of a counter's first row writes those.
 */
export async function importCounters(
  context: ImportContext,
  entries: readonly (CounterEntry | CounterHistoryEntry)[],
): Promise<Result[]> {
  const namespaceOf = await findNamespaces(
    context,
    entries.map(({ namespace }) => namespace),
  )
  const rows = await lockCounters(context, entries)
  const merged = entries.map((entry): MergedCounter => {
    const { id: namespaceId, retention } = namespaceOf(entry.namespace)
    const present = rows.get(keyText(entry))
    const unused = {
      exists: false,
      value: 0,
      definition: { bounds: undefined, slots: 1, ...retention },
      totals: new Map(),
    }
    const state = present ?? unused
    if (entry.type === 'counter')
      return { entry, namespaceId, present, merge: mergeCounter(state, entry, context) }
    // In a dry run its counter may have been left uncreated.
    const isAssumed = context.isDryRun && !present
    const assumed = isAssumed
      ? { ...unused, exists: true, definition: { ...unused.definition, timeZone: entry.timeZone } }
      : state
    return { entry, namespaceId, present, merge: mergeHistory(assumed, entry, context) }
  })
  if (!context.isDryRun) await writeCounters(context, merged.filter(isChanged))
  return merged.map(({ merge: { outcome, note } }) => ({ outcome, note }))
}

function isChanged({ merge: { outcome } }: MergedCounter): boolean {
  return outcome === 'created' || outcome === 'raised' || outcome === 'lowered'
}
