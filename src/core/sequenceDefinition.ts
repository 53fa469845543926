import type { Period } from './calendar.ts'
import { type ErrorDetails, NthError } from './errors.ts'
import { formatOf, hiddenOf, isFormat, parseFormat } from './format.ts'
import { formatsOverlap } from './formatOverlap.ts'
import { beyondBounds } from './numbers.ts'

/** What a sequence is: how its numbers follow one another, and how they are written. */
export interface SequenceDefinition {
  /** The first number of each group, and of each period if it begins anew. */
  startValue: number
  /** From one number to the next; never 0. */
  step: number
  minValue: number | null
  maxValue: number | null
  /** Whether it begins again at the other end: at `minValue`, or at `startValue` if there is none (downwards likewise). */
  cycle: boolean
  /** Null: the number itself, in a named group `group-number`. */
  format: string | null
  /** Null: it never begins anew. */
  restartEvery: Period | null
  /** Whether numbers may be dealt again that look the same. */
  allowRepeats: boolean
  /** The IANA name of the zone of its dates. */
  timeZone: string
  /** Whether its numbers are reserved and confirmed. */
  gapless: boolean
}

/** What is to change; undefined: stays as it is; null: back to the default. */
export type SequenceDefinitionChange = {
  [Part in keyof SequenceDefinition]?: SequenceDefinition[Part] | null | undefined
}

/** How a sequence has written numbers that it has dealt. */
export interface Era {
  format: string | null
  restartEvery: Period | null
  isDescending: boolean
  /** Whether there were numbers below 0. */
  isSigned: boolean
  /** The groups that had dealt numbers by its end. */
  groups: UsedGroups
  /** Whether numbers of it may have been dealt again, in it or after it: then none carries on from it. */
  isMixed: boolean
}

/** Which groups have dealt numbers: such with a name, the one without. */
export interface UsedGroups {
  isNamed: boolean
  isUnnamed: boolean
}

/** A sequence, and what is known of the numbers that it has dealt. */
export interface History {
  definition: SequenceDefinition
  /** As they were written before it was last changed. */
  eras: readonly Era[]
  used: UsedGroups
  /** Whether numbers were dealt since it was last changed. */
  isUsedSince: boolean
}

/** What a sequence is until it is defined otherwise. `timeZone` is that of its namespace. */
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

/** How often the way in which numbers are written can be changed in use. */
const MAX_ERAS = 100

/**
 * A sequence after a change, and how it has written numbers before; an error if that makes no sense, or if numbers
 * could be dealt that look like earlier ones.
 */
export function changedSequenceDefinition(
  history: History,
  change: SequenceDefinitionChange,
): { definition: SequenceDefinition; eras: readonly Era[] } | NthError {
  const { definition: present, used, isUsedSince } = history
  const definition = merged(present, change)
  const fault = faultIn(definition, change)
  if (fault) return fault
  if (!used.isNamed && !used.isUnnamed) return { definition, eras: [] }
  if (definition.gapless !== present.gapless) {
    return refused('definition.gapless', 'can no longer be changed: numbers were dealt')
  }
  if (definition.gapless && isDescending(definition) !== isDescending(present)) {
    return refused('definition.step', 'cannot turn round: numbers that were given back would come twice')
  }
  if (startsInVain(definition, present, used)) {
    return refused('definition.startValue', 'is for the first number, which was issued; use restartSequence')
  }
  const era = eraOf(present, used)
  const eras = isUsedSince ? withEra(history.eras, era) : history.eras
  if (eras.length > MAX_ERAS && !isAlike(era, eraOf(definition, used))) {
    return refused('definition.format', `was changed ${MAX_ERAS} times in use; begin a new sequence`)
  }
  if (definition.cycle || definition.allowRepeats) return { definition, eras }
  // What is so now was compared when it was defined.
  if (isAlike(era, eraOf(definition, used))) return { definition, eras }
  const isSigned = isSigning(definition) || eras.some((era) => era.isSigned)
  const overlapping = eras.find((era) =>
    formatsOverlap(era.format, definition.format, {
      carriesOn: carriesOn(era, definition),
      isDated: definition.restartEvery !== null,
      isSigned,
      groups: era.groups,
    }),
  )
  return overlapping ? repeating(overlapping, definition, change) : { definition, eras }
}

/** Whether a start is new that no number will begin at: no period, round or other group, and the bounds allow the old one. */
function startsInVain(
  definition: SequenceDefinition,
  { startValue }: SequenceDefinition,
  used: UsedGroups,
): boolean {
  const { restartEvery, cycle } = definition
  const isAhead = restartEvery !== null || cycle || used.isNamed
  return (
    definition.startValue !== startValue && !isAhead && beyondBounds(definition, startValue) === undefined
  )
}

export function isDescending({ step }: SequenceDefinition): boolean {
  return step < 0
}

function merged(present: SequenceDefinition, change: SequenceDefinitionChange): SequenceDefinition {
  const defaults = defaultSequenceDefinition(present.timeZone)
  const given = Object.entries(change).filter(([, value]) => value !== undefined)
  const values = given.map(([part, value]) => [part, value ?? defaults[part as keyof SequenceDefinition]])
  // Each part is of the type that it has in both.
  return { ...present, ...(Object.fromEntries(values) as Partial<SequenceDefinition>) }
}

/** Why a sequence can't be so; undefined: it can. */
function faultIn(definition: SequenceDefinition, change: SequenceDefinitionChange): NthError | undefined {
  const { startValue, step, minValue, maxValue, cycle, gapless } = definition
  /** The part that the caller has just changed, of some that don't fit together. */
  const blamed = (...parts: (keyof SequenceDefinition)[]) =>
    `definition.${parts.find((part) => change[part] !== undefined) ?? parts[0]}`
  if (step === 0) return refused('definition.step', 'must not be 0')
  if (minValue !== null && maxValue !== null && minValue > maxValue) {
    return refused(blamed('minValue', 'maxValue'), `leaves no number: from ${minValue} to ${maxValue}`)
  }
  if (minValue !== null && startValue < minValue) {
    const message = `has the sequence begin at ${startValue}, below minValue ${minValue}`
    return refused(blamed('startValue', 'minValue'), message, { limit: minValue })
  }
  if (maxValue !== null && startValue > maxValue) {
    const message = `has the sequence begin at ${startValue}, above maxValue ${maxValue}`
    return refused(blamed('startValue', 'maxValue'), message, { limit: maxValue })
  }
  if (cycle && (step > 0 ? maxValue : minValue) === null) {
    const end = step > 0 ? 'maxValue' : 'minValue'
    return refused(blamed('cycle', end, 'step'), `needs a ${end} at which it begins again`)
  }
  if (cycle && gapless) return refused(blamed('gapless', 'cycle'), 'of a gapless sequence cannot be a cycle')
  return faultInFormat(definition, change)
}

function faultInFormat(
  { format, restartEvery, allowRepeats }: SequenceDefinition,
  change: SequenceDefinitionChange,
): NthError | undefined {
  const argument = 'definition.format'
  if (format !== null) {
    const parsed = parseFormat(format)
    if (!isFormat(parsed)) {
      const { message, position } = parsed
      if (position === undefined) return refused(argument, message)
      return refused(argument, `${message} (character ${position})`, { position })
    }
  }
  if (restartEvery === null || allowRepeats) return undefined
  const hidden = hiddenOf(formatOf(format, false), restartEvery)
  if (hidden.length === 0) return undefined
  const blamed = change.format === undefined ? 'definition.restartEvery' : argument
  const period = restartEvery.toLowerCase()
  return refused(
    blamed,
    `would repeat numbers: they begin again every ${period}, and a format must then show ${hidden.join(' and ')}; or set allowRepeats`,
  )
}

function eraOf(definition: SequenceDefinition, groups: UsedGroups): Era {
  const { format, restartEvery, cycle, allowRepeats } = definition
  return {
    format,
    restartEvery,
    isDescending: isDescending(definition),
    isSigned: isSigning(definition),
    groups,
    isMixed: cycle || allowRepeats,
  }
}

/** The eras with one more. Of groups there are ever more. */
function withEra(eras: readonly Era[], era: Era): Era[] {
  const before = eras.map((other) => {
    const isMixed = other.isMixed || era.isMixed || other.isDescending !== era.isDescending
    return { ...other, isMixed }
  })
  return [...before.filter((other) => !isAlike(other, era)), era]
}

function isAlike(era: Era, other: Era): boolean {
  const [one, two] = [era, other].map((each) => JSON.stringify({ ...each, groups: undefined }))
  return one === two
}

/** Whether numbers may be below 0, if nobody has told them to begin there. */
function isSigning({ startValue, step, minValue }: SequenceDefinition): boolean {
  return startValue < 0 || (step < 0 && (minValue === null || minValue < 0))
}

/** Whether the next numbers of a group follow those of an era, so that none of them is dealt again. */
function carriesOn({ isMixed, ...era }: Era, next: SequenceDefinition): boolean {
  return !isMixed && era.restartEvery === next.restartEvery && era.isDescending === isDescending(next)
}

function repeating(era: Era, next: SequenceDefinition, change: SequenceDefinitionChange): NthError {
  const parts = ['format', 'restartEvery', 'step', 'cycle', 'allowRepeats', 'startValue', 'minValue'] as const
  const argument = `definition.${parts.find((part) => change[part] !== undefined) ?? 'format'}`
  const [before, after] = [era.format, next.format].map(described)
  return refused(
    argument,
    `could repeat numbers: some were issued as ${before}, and others could look the same as ${after}. Add a character other than a digit that no earlier format has, and keep {group} if groups have numbers; or set allowRepeats`,
  )
}

function described(format: string | null): string {
  return format === null ? 'plain numbers' : JSON.stringify(format)
}

function refused(argument: string, message: string, details: ErrorDetails = {}): NthError {
  return new NthError('BAD_USER_INPUT', `Argument "${argument}" ${message}. Nothing was changed.`, {
    argument,
    ...details,
  })
}
