import type { Period } from '../../rules/calendar.ts'
import type { Change } from '../change.ts'

/** Definition of a sequence: the order of its numbers, and their format. */
export interface SequenceDefinition {
  /** First number of each sequence group, and of each period if it restarts. */
  startValue: number
  /** Added for each number; never 0. */
  step: number
  minValue: number | null
  maxValue: number | null
  /** Whether it wraps around: to `minValue`, or to `startValue` without one; downwards to `maxValue`. */
  cycle: boolean
  /** Null: the number itself; in a named sequence group `group-number`. */
  format: string | null
  /** Null: never. */
  restartEvery: Period | null
  /** Whether the same text may be issued more than once. */
  allowRepeats: boolean
  /** IANA name of the time zone of its dates. */
  timeZone: string
  /** Whether numbers are reserved, then confirmed or released. */
  gapless: boolean
}

export type SequenceDefinitionChange = Change<SequenceDefinition>

/** A format in which a sequence has issued numbers. */
export interface PastFormat {
  format: string | null
  restartEvery: Period | null
  isDescending: boolean
  /** Whether negative numbers were issued. */
  isSigned: boolean
  /** The sequence groups that had issued numbers when the format was replaced. */
  groups: UsedSequenceGroups
  /** Whether its numbers may have been reissued, in this format or later. Then no later number follows from it. */
  isMixed: boolean
}

/** Which sequence groups have issued numbers: any named one, the unnamed one. */
export interface UsedSequenceGroups {
  isNamed: boolean
  isUnnamed: boolean
}

/** A sequence definition, and how its numbers were issued so far. */
export interface History {
  definition: SequenceDefinition
  /** Earlier formats, before the last change. */
  formatHistory: readonly PastFormat[]
  used: UsedSequenceGroups
  /** Whether numbers were issued since the last change. */
  isUsedSince: boolean
}

/** Definition of a sequence that was never defined. `timeZone` is that of its namespace. */
export function defaultSequenceDefinition(timeZone: string): SequenceDefinition {
  return {
    startValue: 1,
    step: 1,
    minValue: null,
    maxValue: null,
    cycle: false,
    format: null,
    restartEvery: null,
    allowRepeats: false,
    timeZone,
    gapless: false,
  }
}

export function isDescending({ step }: SequenceDefinition): boolean {
  return step < 0
}
