import { NthError } from '../errors.ts'
import { changedSequenceDefinition, formatInUse } from '../sequences/changeDefinition.ts'
import type { History, PastFormat, SequenceDefinition } from '../sequences/definition.ts'
import type { SequenceEntry } from './entries.ts'
import { type Options, OTHER_DEFINITION, type Result, refused } from './outcome.ts'

/** What to write of a sequence. */
export interface SequenceMerge extends Result {
  /** The new definition; undefined: unchanged. */
  definition: SequenceDefinition | undefined
  /** The new format history; undefined: unchanged. */
  formatHistory: readonly PastFormat[] | undefined
}

/**
 * A sequence after an import. The formats of the file become part of its format history, also where its definition is
 * kept: so that no later format repeats the texts that were issued elsewhere.
 *
 * @param present its definition and use; `exists`: whether it was ever used or defined
 */
export function mergeSequence(
  present: History & { exists: boolean },
  entry: SequenceEntry,
  { overwrite }: Options,
): SequenceMerge {
  const { exists } = present
  const differs = textOf(present.definition) !== textOf(entry.definition)
  const used = { isNamed: true, isUnnamed: true }
  const past =
    exists && differs ? [...entry.formatHistory, formatInUse(entry.definition, used)] : entry.formatHistory
  if (exists && !(differs && overwrite)) {
    const formatHistory = union(present.formatHistory, past)
    const isChanged = formatHistory.length > present.formatHistory.length
    return {
      outcome: isChanged ? 'raised' : 'unchanged',
      note: differs ? OTHER_DEFINITION : undefined,
      definition: undefined,
      formatHistory: isChanged ? formatHistory : undefined,
    }
  }
  const changed = changedSequenceDefinition(present, entry.definition)
  if (changed instanceof NthError)
    return { ...refused(changed.message), definition: undefined, formatHistory: undefined }
  return {
    outcome: exists ? 'lowered' : 'created',
    definition: changed.definition,
    formatHistory: union(changed.formatHistory, entry.formatHistory),
  }
}

function union(present: readonly PastFormat[], imported: readonly PastFormat[]): readonly PastFormat[] {
  const known = new Set(present.map((one) => pastText(one)))
  return [...present, ...imported.filter((one) => !known.has(pastText(one)))]
}

/** The order of the parts does not matter. */
function textOf(definition: SequenceDefinition): string {
  return JSON.stringify(Object.entries(definition).toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

function pastText({ groups, ...rest }: PastFormat): string {
  const parts = Object.entries({ ...rest, ...groups }).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return JSON.stringify(parts)
}
