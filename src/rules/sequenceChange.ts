import { crossed } from './counter.ts'
import { type ErrorDetails, NthError } from './errors.ts'
import { formatOf, formatsOverlap, hiddenOf, isFormat, parseFormat } from './format.ts'
import { withChange } from './names.ts'
import {
  defaultSequenceDefinition,
  type History,
  isDescending,
  type PastFormat,
  type SequenceDefinition,
  type SequenceDefinitionChange,
  type UsedSequenceGroups,
} from './sequenceDefinition.ts'

/** How often the format of a sequence in use can be changed. */
const MAX_PAST_FORMATS = 100

/** A definition after a change, with its format history; an error if it is invalid, or could issue texts again. */
export function changedSequenceDefinition(
  history: History,
  change: SequenceDefinitionChange,
): { definition: SequenceDefinition; formatHistory: readonly PastFormat[] } | NthError {
  const { definition: present, used, isUsedSince } = history
  const definition = withChange(present, change, defaultSequenceDefinition(present.timeZone))
  const fault = faultIn(definition, change)
  if (fault) return fault
  if (!used.isNamed && !used.isUnnamed) return { definition, formatHistory: [] }
  if (definition.gapless !== present.gapless) {
    return refused(change, ['gapless'], 'can no longer be changed: numbers were issued')
  }
  if (definition.gapless && isDescending(definition) !== isDescending(present)) {
    const message = 'cannot change direction: numbers that were released would be issued twice'
    return refused(change, ['step'], message)
  }
  const isStartAhead = definition.restartEvery !== null || definition.cycle || used.isNamed
  const isOldStartValid = !crossed(definition, present.startValue)
  if (definition.startValue !== present.startValue && !isStartAhead && isOldStartValid) {
    const message = 'only affects the first number, which was already issued; use restartSequence'
    return refused(change, ['startValue'], message)
  }
  const past = formatInUse(present, used)
  const formatHistory = isUsedSince ? withFormat(history.formatHistory, past) : history.formatHistory
  const isSameFormat = isAlike(past, formatInUse(definition, used))
  if (formatHistory.length > MAX_PAST_FORMATS && !isSameFormat) {
    return refused(change, ['format'], `was changed ${MAX_PAST_FORMATS} times in use; create a new sequence`)
  }
  // An unchanged format was compared when it was defined.
  if (definition.cycle || definition.allowRepeats || isSameFormat) return { definition, formatHistory }
  const isSigned = isSigning(definition) || formatHistory.some((past) => past.isSigned)
  const overlappingWith = (format: string | null) =>
    formatHistory.find(
      (past) =>
        !(past.format === format && continues(past, definition)) &&
        formatsOverlap(past.format, format, { isSigned, groups: past.groups }),
    )
  const overlapping = overlappingWith(definition.format)
  if (!overlapping) return { definition, formatHistory }
  const example = examplesFor(definition, formatHistory).find((format) => !overlappingWith(format))
  return repeating(overlapping, definition, change, example)
}

/** Whether the next numbers follow those of an earlier definition, so that none is reissued. */
function continues(past: PastFormat, definition: SequenceDefinition): boolean {
  const isSameDirection = past.isDescending === isDescending(definition)
  return !past.isMixed && past.restartEvery === definition.restartEvery && isSameDirection
}

/** Formats like that of a definition which probably differ from all earlier ones. */
function examplesFor(definition: SequenceDefinition, formatHistory: readonly PastFormat[]): string[] {
  const texts = formatHistory.map(({ format }) => format).join()
  const letter = [...'NABCDEFGIJKLOPQRSTUVXYZ'].find((one) => !texts.includes(one))
  const isNamed = formatHistory.some(({ groups }) => groups.isNamed)
  const format = definition.format ?? (isNamed ? '{group}-{value}' : '{value}')
  return [`${letter}-${format}`, `${letter}-{group}-${format}`].filter(
    (example) => letter !== undefined && isFormat(parseFormat(example)),
  )
}

/** Why a definition is invalid; undefined: it is valid. */
function faultIn(definition: SequenceDefinition, change: SequenceDefinitionChange): NthError | undefined {
  const { startValue, step, minValue, maxValue, cycle, gapless } = definition
  if (step === 0) return refused(change, ['step'], 'must not be 0')
  if (minValue !== null && maxValue !== null && minValue > maxValue) {
    return refused(change, ['minValue', 'maxValue'], `leaves no number between ${minValue} and ${maxValue}`)
  }
  const beyond = crossed(definition, startValue)
  if (beyond) {
    const { side, limit } = beyond
    const message = `makes startValue ${startValue} ${side === 'minValue' ? 'lower' : 'higher'} than ${side} ${limit}`
    return refused(change, ['startValue', side], message, { limit })
  }
  const end = step > 0 ? 'maxValue' : 'minValue'
  if (cycle && definition[end] === null) {
    return refused(change, ['cycle', end, 'step'], `requires ${end}, where the sequence wraps around`)
  }
  if (cycle && gapless) {
    const message = 'is not possible: a gapless sequence cannot wrap around'
    return refused(change, ['gapless', 'cycle'], message)
  }
  return faultInFormat(definition, change)
}

function faultInFormat(
  { format, restartEvery, allowRepeats }: SequenceDefinition,
  change: SequenceDefinitionChange,
): NthError | undefined {
  if (format !== null) {
    const parsed = parseFormat(format)
    if (!isFormat(parsed)) {
      const { message, position } = parsed
      if (position === undefined) return refused(change, ['format'], message)
      return refused(change, ['format'], `${message} (character ${position})`, { position })
    }
  }
  if (restartEvery === null || allowRepeats) return undefined
  const hidden = hiddenOf(formatOf(format, false), restartEvery)
  if (hidden.length === 0) return undefined
  const blamed = change.format === undefined ? 'restartEvery' : 'format'
  const period = restartEvery.toLowerCase()
  const message = `would repeat numbers: they restart every ${period}, so the format must contain ${hidden.join(' and ')}; or set allowRepeats`
  return refused(change, [blamed], message)
}

/** A definition as a past format: how its numbers look. */
export function formatInUse(definition: SequenceDefinition, groups: UsedSequenceGroups): PastFormat {
  const { format, restartEvery, cycle, allowRepeats } = definition
  const direction = { isDescending: isDescending(definition), isSigned: isSigning(definition) }
  return { format, restartEvery, ...direction, groups, isMixed: cycle || allowRepeats }
}

/** Adds the format in use. The set of sequence groups only grows. */
function withFormat(formatHistory: readonly PastFormat[], past: PastFormat): PastFormat[] {
  const before = formatHistory.map((other) => ({
    ...other,
    isMixed: other.isMixed || past.isMixed || other.isDescending !== past.isDescending,
  }))
  return [...before.filter((other) => !isAlike(other, past)), past]
}

function isAlike(past: PastFormat, other: PastFormat): boolean {
  return JSON.stringify({ ...past, groups: undefined }) === JSON.stringify({ ...other, groups: undefined })
}

/** Whether numbers may be negative without a restart at a negative number. */
function isSigning({ startValue, step, minValue, cycle }: SequenceDefinition): boolean {
  if (startValue < 0) return true
  return step < 0 ? minValue === null || minValue < 0 : cycle && minValue !== null && minValue < 0
}

function repeating(
  past: PastFormat,
  next: SequenceDefinition,
  change: SequenceDefinitionChange,
  example: string | undefined,
): NthError {
  const others = ['restartEvery', 'step', 'cycle', 'allowRepeats', 'startValue', 'minValue'] as const
  const [before, after] = [past, next].map(({ format }) =>
    format ? JSON.stringify(format) : 'plain numbers',
  )
  const suggestion = example === undefined ? '' : `, such as ${JSON.stringify(example)}`
  const message = `could repeat numbers: some were issued as ${before}, and others could look the same as ${after}. Use a format with one more character other than a digit${suggestion}; or set allowRepeats`
  return refused(change, ['format', ...others], message)
}

/** The error of a change. Of parts that contradict each other, its argument is the first one that the caller changed. */
function refused(
  change: SequenceDefinitionChange,
  parts: readonly (keyof SequenceDefinition)[],
  message: string,
  details: ErrorDetails = {},
): NthError {
  const argument = `definition.${parts.find((part) => change[part] !== undefined) ?? parts[0]}`
  const text = `Argument "${argument}" ${message}. Nothing was changed.`
  return new NthError('BAD_USER_INPUT', text, { argument, ...details })
}
