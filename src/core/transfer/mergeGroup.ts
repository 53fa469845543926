import type { Position } from '../sequences/blocks.ts'
import { isDescending, type SequenceDefinition } from '../sequences/definition.ts'
import type { GroupPeriod } from './entries.ts'
import { type Options, type Outcome, type Result, refused } from './outcome.ts'

/** Position of a sequence group in a period, as an import finds it under lock. */
export interface PresentPosition extends Position {
  generation: number
}

/** What to write of a sequence group in a period; undefined: nothing. */
export interface PositionMerge extends Result {
  position: PresentPosition | undefined
}

/**
 * The position of a sequence group after an import: the one whose next number is further in the direction of the
 * sequence.
 *
 * A group that was restarted since is in another generation. The numbers of a gapless one then don't continue those of
 * the file: taking its position would leave gaps, or issue numbers twice.
 *
 * @param present undefined: it has issued no number in this period
 */
export function mergePosition(
  definition: SequenceDefinition,
  present: PresentPosition | undefined,
  { lastValue: last, nextValue: next, generation }: GroupPeriod,
  { overwrite }: Options,
): PositionMerge {
  const imported = { last, next, generation }
  if (!present || isEmpty(present)) {
    return isEmpty(imported)
      ? { outcome: 'unchanged', position: undefined }
      : { outcome: 'created', position: imported }
  }
  const [before, after] = [upcoming(definition, present), upcoming(definition, imported)]
  if (after === before && generation === present.generation) return stays('unchanged')
  const isFurther =
    before === null || (after !== null && (isDescending(definition) ? after < before : after > before))
  if (definition.gapless && generation !== present.generation)
    return {
      ...refused('it was restarted, and a gapless sequence continues its own numbers'),
      position: undefined,
    }
  if (isFurther) {
    return {
      outcome: 'raised',
      position: { ...imported, generation: Math.max(generation, present.generation) },
    }
  }
  if (!overwrite || after === before) return stays(after === before ? 'unchanged' : 'kept')
  if (definition.gapless)
    return { ...refused('numbers of a gapless sequence are never lowered'), position: undefined }
  return {
    outcome: 'lowered',
    position: { ...imported, generation: Math.max(generation, present.generation) },
  }
}

function stays(outcome: Outcome): PositionMerge {
  return { outcome, position: undefined }
}

function isEmpty({ last, next }: Position): boolean {
  return last === null && next === null
}

/** The next number, without regard to bounds; null: none was issued. */
function upcoming({ step }: SequenceDefinition, { last, next }: Position): number | null {
  return next ?? (last === null ? null : last + step)
}
