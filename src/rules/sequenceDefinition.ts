import type { Period } from './calendar.ts'
import { NthError } from './errors.ts'
import type { Change } from './names.ts'

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
function isBeyond(number: number, other: number, step: number): boolean {
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
  const asked = count === 1 ? 'a number' : `${count} numbers`
  const since = last === null ? 'no number was issued yet' : `the last number was ${last}`
  if (limit !== null) {
    const message = `Cannot issue ${asked}, as ${since} and the sequence ends at ${limit}. Nothing was issued.`
    return new NthError('SEQUENCE_EXHAUSTED', message, { limit, ...(last !== null && { lastValue: last }) })
  }
  const message = `Cannot issue ${asked} within ${Number.MIN_SAFE_INTEGER} to ${Number.MAX_SAFE_INTEGER}, as ${since}. Nothing was issued.`
  return new NthError('OUT_OF_RANGE', message, { value: last ?? startValue })
}
