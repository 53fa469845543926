import type { Period } from './calendar.ts'
import { crossed } from './counter.ts'
import { type ErrorDetails, NthError } from './errors.ts'
import {
  areDistinct,
  formatOf,
  hiddenOf,
  mixesGroups,
  parseFormat,
  showsGroup,
  skeletonsOf,
} from './format.ts'
import { type Change, withChange } from './names.ts'

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

/** What is stored of a definition. */
export interface StoredDefinition {
  definition: SequenceDefinition
  /** The skeletons of the formats in which numbers were issued before the last change. */
  pastFormats: readonly string[]
  /** Whether a migration has set `allowRepeats`, as named sequence groups were used in a format that doesn't show them. */
  hasMigratedRepeats: boolean
}

/** A definition, and how its numbers were issued so far. */
export interface History extends StoredDefinition {
  /** Which sequence groups have issued numbers: any named one, the unnamed one. */
  used: { isNamed: boolean; isUnnamed: boolean }
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

/** A sequence that does not exist. */
export const UNUSED: History = {
  definition: defaultSequenceDefinition('UTC'),
  pastFormats: [],
  hasMigratedRepeats: false,
  used: { isNamed: false, isUnnamed: false },
  isUsedSince: false,
}

export function isDescending({ step }: SequenceDefinition): boolean {
  return step < 0
}

/** Maximum skeletons of past formats. */
export const MAX_PAST_FORMATS = 100

/**
 * A definition after a change; an error if it is invalid, or could issue a text again. These rules keep the texts of all
 * sequence groups and periods unique, unless `allowRepeats` is set:
 *
 * - A format with `{group}` shows where the name ends (`mixesGroups`). Without it, only the unnamed group issues numbers
 *   (`groupRefusal`).
 * - A format shows the period in which numbers restart (`hiddenOf`).
 * - If numbers don't simply go on, the format differs from all in which numbers were issued (`areDistinct`).
 */
export function changedSequenceDefinition(
  history: History,
  change: SequenceDefinitionChange,
): StoredDefinition | NthError {
  const { definition: present, used, isUsedSince } = history
  const isUsed = used.isNamed || used.isUnnamed
  const definition = withChange(present, change, defaultSequenceDefinition(present.timeZone))
  if (history.hasMigratedRepeats && isForUnnamedOnly(definition)) definition.allowRepeats = true
  // A named group, which has issued none yet, could repeat texts of an earlier format: so it needs another one than null.
  const isReturn = definition.format === null && present.format !== null
  if (isReturn && isUsed && !used.isNamed && !definition.allowRepeats) definition.format = '{value}'
  const isContinued = continues(present, definition)
  const fault = faultIn(definition, change)
  if (fault) return fault
  if (breaksGroups(definition) && !(isContinued && breaksGroups(present))) {
    const others = isSigning(definition) ? 'a digit or -, such as /' : 'a digit, such as -'
    const message = `must have a character other than ${others}, between {group} and {value}: otherwise two groups could issue the same text; or set allowRepeats`
    return refused(change, ['format', 'startValue', 'minValue', 'allowRepeats'], message)
  }
  const hasMigratedRepeats = history.hasMigratedRepeats && definition.allowRepeats
  if (!isUsed) return { definition, hasMigratedRepeats, pastFormats: history.pastFormats }
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
  const skeletonsIn = (each: SequenceDefinition) =>
    pastFormatsOf({ format: each.format, isSigned: isSigning(each), groups: used })
  const before = skeletonsIn(present)
  const pastFormats = isUsedSince ? union(history.pastFormats, before) : history.pastFormats
  const stored = { definition, hasMigratedRepeats, pastFormats }
  if (definition.cycle || definition.allowRepeats) return stored
  if (pastFormats.length > MAX_PAST_FORMATS && !isContinued) {
    return refused(change, ['format'], `was changed ${MAX_PAST_FORMATS} times in use; create a new sequence`)
  }
  // Numbers that go on repeat none of their own format. They may begin to fall below 0, though.
  const isNew = (skeleton: string) => !(isContinued && before.includes(skeleton))
  const others = pastFormats.filter(isNew)
  const begun = skeletonsIn(definition).filter(isNew)
  const repeated = others.find((past) => begun.some((skeleton) => !areDistinct(past, skeleton)))
  return repeated === undefined ? stored : repeating(change, definition, repeated, others)
}

/** Whether the numbers of a definition simply follow the numbers of the definition before. */
function continues(present: SequenceDefinition, definition: SequenceDefinition): boolean {
  const { format, restartEvery, cycle, allowRepeats } = definition
  return (
    format === present.format &&
    restartEvery === present.restartEvery &&
    isDescending(definition) === isDescending(present) &&
    (cycle || !present.cycle) &&
    (allowRepeats || !present.allowRepeats)
  )
}

/** Whether two sequence groups could issue the same text. */
export function breaksGroups(definition: SequenceDefinition): boolean {
  const { format, allowRepeats } = definition
  if (format === null || allowRepeats || !showsGroup(format)) return false
  return mixesGroups(formatOf(format, true), isSigning(definition))
}

/** Whether named sequence groups would have texts of other groups. */
export function isForUnnamedOnly(definition: SequenceDefinition): boolean {
  const { format } = definition
  return format === null ? isSigning(definition) : !showsGroup(format)
}

/** The error of a number for a sequence group that would have texts of other groups; undefined: there is none. */
export function groupRefusal(definition: SequenceDefinition, group: string): NthError | undefined {
  if (group === '' || definition.allowRepeats || !isForUnnamedOnly(definition)) return undefined
  const { format } = definition
  const message =
    format === null
      ? 'The numbers of this sequence may be below 0, so a named sequence group needs a format: give it one, such as "{group}/{value}". Nothing was issued.'
      : `The format ${JSON.stringify(format)} does not show the sequence group, so only the unnamed one issues numbers. Add {group} to it, or set allowRepeats. Nothing was issued.`
  return new NthError('BAD_USER_INPUT', message, { argument: 'group' })
}

/** All of two lists, each once. */
export function union(first: readonly string[], second: readonly string[]): readonly string[] {
  return [...new Set([...first, ...second])]
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
    if ('message' in parsed) {
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

/** A format in which numbers were issued, as earlier versions and files have it. */
export interface PastFormat {
  format: string | null
  /** Whether numbers may have been negative. */
  isSigned: boolean
  /** The sequence groups that had issued numbers. */
  groups: History['used']
}

/** The skeletons of a past format. Without a format, named sequence groups have another skeleton. */
export function pastFormatsOf({ format, isSigned, groups: { isNamed, isUnnamed } }: PastFormat): string[] {
  const kinds = format === null && isNamed ? [true, ...(isUnnamed ? [false] : [])] : [false]
  return kinds.flatMap((isNamed) => skeletonsOf(formatOf(format, isNamed), isSigned))
}

/** Whether numbers may be negative without a restart at a negative number. */
function isSigning({ startValue, step, minValue, cycle }: SequenceDefinition): boolean {
  if (startValue < 0) return true
  return step < 0 ? minValue === null || minValue < 0 : cycle && minValue !== null && minValue < 0
}

function repeating(
  change: SequenceDefinitionChange,
  { format }: SequenceDefinition,
  repeated: string,
  others: readonly string[],
): NthError {
  const letter = [...'NABCDEFGIJKLOPQRSTUVXYZ'].find((each) => !others.some((past) => past.includes(each)))
  const example = `${letter}-${format ?? '{value}'}`
  const fits =
    !('message' in parseFormat(example)) &&
    skeletonsOf(formatOf(example, false), true).every((skeleton) =>
      others.every((past) => areDistinct(past, skeleton)),
    )
  const suggestion = letter !== undefined && fits ? `, such as ${JSON.stringify(example)}` : ''
  const how = [repeated, format ?? ''].some(showsGroup) ? 'begins or ends with' : 'has'
  const message = `could repeat numbers: some were issued as ${JSON.stringify(repeated)}, where # is a number, and others could look the same. Use a format that ${how} other characters than digits${suggestion}; or set allowRepeats`
  const parts = ['format', 'restartEvery', 'step', 'cycle', 'allowRepeats', 'startValue', 'minValue'] as const
  return refused(change, parts, message)
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

/** Position of a sequence group in its current period: the last number issued, and the one set to come next. */
export interface Position {
  /** The last number issued; null: none yet. */
  last: number | null
  /** The next number, if it doesn't follow from the last. */
  next: number | null
}

/** Consecutive numbers. */
export interface Block {
  /** The first number. */
  value: number
  lastValue: number
  count: number
  step: number
  /** The cycle in which they wrap around: the number after that, and the last bound; undefined: they don't. */
  ring?: { from: number; end: number } | undefined
}

/** Maximum numbers of one call. */
export const MAX_BLOCK = 1_000_000
/** Largest block whose numbers are listed. On a cycle, where they can't be derived from the first one, the largest. */
export const MAX_LISTED = 2000

/** The next numbers; an error if there are not that many. */
export function blockAt(definition: SequenceDefinition, position: Position, count: number): Block | NthError {
  const { step, cycle } = definition
  const end = endOf(definition)
  const first = upcoming(definition, position)
  if (!cycle) {
    const lastValue = first === null ? null : after(first, count - 1, end, step)
    if (first === null || lastValue === null) return exhausted(definition, position, count)
    return { value: first, lastValue, count, step }
  }
  const ring = { from: startOfRound(definition), end }
  const most = Math.min(numbersUntil(ring.from, end, step), MAX_LISTED)
  if (count > most) {
    const message = `Argument "count" must be at most ${most}, as this sequence wraps around; it is ${count}.`
    return new NthError('BAD_USER_INPUT', message, { argument: 'count', limit: most })
  }
  const value = first ?? ring.from
  const untilEnd = numbersUntil(value, end, step)
  if (count <= untilEnd) return { value, lastValue: further(value, count - 1, step), count, step }
  return { value, lastValue: further(ring.from, count - untilEnd - 1, step), count, step, ring }
}

/** Whether a position is further than another one in the direction of the sequence, whatever the bounds. */
export function isFurther(definition: SequenceDefinition, position: Position, other: Position): boolean {
  const step = BigInt(definition.step)
  // Exact, also outside the safe range: otherwise the number after another one could be the same.
  const followingOf = ({ last, next }: Position) =>
    next !== null ? BigInt(next) : last !== null ? BigInt(last) + step : null
  const [following, present] = [followingOf(position), followingOf(other)]
  if (following === null || present === null) return following !== null
  return step > 0n ? following > present : following < present
}

/** The number that would be issued next; null: the sequence is exhausted. */
export function nextNumber(definition: SequenceDefinition, position: Position): number | null {
  return upcoming(definition, position) ?? (definition.cycle ? startOfRound(definition) : null)
}

/** All numbers of a block, in order. */
export function numbersOf({ value, count, step, ring }: Block): number[] {
  if (!ring) return Array.from({ length: count }, (_, index) => further(value, index, step))
  const numbers: number[] = []
  for (let number = value; numbers.length < count; ) {
    numbers.push(number)
    number = after(number, 1, ring.end, step) ?? ring.from
  }
  return numbers
}

/** The next number without a wrap around; null: the end is reached. */
function upcoming(definition: SequenceDefinition, { last, next }: Position): number | null {
  const { startValue, step, minValue, maxValue } = definition
  const number = next ?? (last === null ? startValue : last + step)
  // The bounds may have changed since.
  const [nearest, end] = [step > 0 ? minValue : maxValue, endOf(definition)]
  return after(nearest !== null && isBeyond(nearest, number, step) ? nearest : number, 0, end, step)
}

/** The number some steps further on; null: it is beyond the end. */
function after(number: number, steps: number, end: number, step: number): number | null {
  const value = further(number, steps, step)
  return isBeyond(value, end, step) ? null : value
}

/** Exact within the safe range, even if the distance isn't safe. Outside it is rounded, but never into the range. */
function further(number: number, steps: number, step: number): number {
  const distance = steps * step
  if (Number.isSafeInteger(distance)) return number + distance
  return Number(BigInt(number) + BigInt(steps) * BigInt(step))
}

/** Whether a number is past another one, in the direction of `step`. */
export function isBeyond(number: number, other: number, step: number): boolean {
  return step > 0 ? number > other : number < other
}

function endOf({ step, minValue, maxValue }: SequenceDefinition): number {
  return step > 0 ? (maxValue ?? Number.MAX_SAFE_INTEGER) : (minValue ?? Number.MIN_SAFE_INTEGER)
}

function startOfRound({ step, minValue, maxValue, startValue }: SequenceDefinition): number {
  return (step > 0 ? minValue : maxValue) ?? startValue
}

/** How many numbers there are up to the end. The distance may be outside the safe range. */
function numbersUntil(number: number, end: number, step: number): number {
  return Number((BigInt(end) - BigInt(number)) / BigInt(step)) + 1
}

function exhausted(definition: SequenceDefinition, { last }: Position, count: number): NthError {
  const { step, minValue, maxValue, startValue } = definition
  const limit = step > 0 ? maxValue : minValue
  const block = count === 1 ? 'a number' : `${count} numbers`
  const since = last === null ? 'no number was issued yet' : `the last number was ${last}`
  if (limit !== null) {
    const message = `Cannot issue ${block}, as ${since} and the sequence ends at ${limit}. Nothing was issued.`
    return new NthError('SEQUENCE_EXHAUSTED', message, { limit, ...(last !== null && { lastValue: last }) })
  }
  const message = `Cannot issue ${block} within ${Number.MIN_SAFE_INTEGER} to ${Number.MAX_SAFE_INTEGER}, as ${since}. Nothing was issued.`
  return new NthError('OUT_OF_RANGE', message, { value: last ?? startValue })
}
