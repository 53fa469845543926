/**
 * What an import does with an entry. Present numbers are only raised, or advanced in the direction of a sequence.
 *
 *   created    it did not exist
 *   raised     some of it was lower than in the file, or missing
 *   lowered    some of it was changed otherwise, as the operator allowed
 *   unchanged  all of it was present
 *   kept       a present number is further than that of the file, and stays
 *   refused    nothing of it was applied, for a reason
 */
export const OUTCOMES = ['created', 'raised', 'lowered', 'unchanged', 'kept', 'refused'] as const

export type Outcome = (typeof OUTCOMES)[number]

export interface Options {
  /** Whether definitions and numbers of the file replace present ones that differ. */
  overwrite: boolean
}

/** What was done with an entry. `note`: why not all of it was applied. */
export interface Result {
  outcome: Outcome
  note?: string | undefined
}

export function refused(note: string): Result & { outcome: 'refused' } {
  return { outcome: 'refused', note }
}

export const OTHER_DEFINITION = 'has another definition, which was kept; --overwrite replaces it'
