import { NthError } from './errors.ts'
import type { SequenceDefinition } from './sequenceDefinition.ts'

/** Where a group stands in its running period: what it has issued last, and what was said to come next. */
export interface Position {
  /** The last number issued; null: none yet. */
  last: number | null
  /** The next one, if it doesn't follow from the last. */
  next: number | null
}

/** Numbers that follow one another. */
export interface Block {
  /** The first. */
  value: number
  lastValue: number
  count: number
  step: number
  /** Where they go on after the end; undefined: they don't come to it. */
  ring?: Ring | undefined
}

/** The ends of a cycle. */
export interface Ring {
  /** Where it begins again. */
  from: number
  /** What no number of it is beyond. */
  end: number
}

/** The most numbers that one call takes. */
export const MAX_BLOCK = 1_000_000
/** The most that one call takes of a cycle, where they can't be counted from the first one. */
export const MAX_BLOCK_OF_CYCLE = 10_000

/** The numbers that come next; an error where there are not so many. */
export function blockAt(definition: SequenceDefinition, position: Position, count: number): Block | NthError {
  const { step, cycle } = definition
  const end = endOf(definition)
  const first = upcoming(definition, position)
  if (!cycle) {
    const lastValue = first === null ? null : after(first, count - 1, end, step)
    return first === null || lastValue === null
      ? exhausted(definition, position, count)
      : { value: first, lastValue, count, step }
  }
  const ring = { from: startOfRound(definition), end }
  const most = lengthOf(ring, step)
  if (count > most) return tooLong(count, most)
  const value = first ?? ring.from
  const untilEnd = numbersUntil(value, end, step)
  if (count <= untilEnd) return { value, lastValue: further(value, count - 1, step), count, step }
  return { value, lastValue: further(ring.from, count - untilEnd - 1, step), count, step, ring }
}

/** The number that would be issued next; null: there is none left. */
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

/** The bound that a number is beyond; undefined: it may be issued. */
export function beyondBounds({ minValue, maxValue }: SequenceDefinition, value: number): number | undefined {
  if (maxValue !== null && value > maxValue) return maxValue
  return minValue !== null && value < minValue ? minValue : undefined
}

/** The next number before the end is come to; null: it is. */
function upcoming(definition: SequenceDefinition, { last, next }: Position): number | null {
  const { startValue, step, minValue, maxValue } = definition
  const number = next ?? (last === null ? startValue : last + step)
  // The bounds may have been moved since.
  const [nearest, end] = [step > 0 ? minValue : maxValue, endOf(definition)]
  return after(nearest !== null && isBeyond(nearest, number, step) ? nearest : number, 0, end, step)
}

/** A number some steps further on; null where that is beyond the end. */
function after(number: number, steps: number, end: number, step: number): number | null {
  const value = further(number, steps, step)
  return isBeyond(value, end, step) ? null : value
}

/** Exact within the safe range, also where the distance is out of it; out of it rounded, but never into it. */
function further(number: number, steps: number, step: number): number {
  const distance = steps * step
  if (Number.isSafeInteger(distance)) return number + distance
  return Number(BigInt(number) + BigInt(steps) * BigInt(step))
}

/** Whether a number comes after another one, in the direction of the steps. */
function isBeyond(number: number, other: number, step: number): boolean {
  return step > 0 ? number > other : number < other
}

function endOf({ step, minValue, maxValue }: SequenceDefinition): number {
  return step > 0 ? (maxValue ?? Number.MAX_SAFE_INTEGER) : (minValue ?? Number.MIN_SAFE_INTEGER)
}

function startOfRound({ step, minValue, maxValue, startValue }: SequenceDefinition): number {
  return (step > 0 ? minValue : maxValue) ?? startValue
}

function lengthOf({ from, end }: Ring, step: number): number {
  return Math.min(numbersUntil(from, end, step), MAX_BLOCK_OF_CYCLE)
}

/** How many numbers there are from one to the end. The distance may be out of the safe range. */
function numbersUntil(number: number, end: number, step: number): number {
  return Number((BigInt(end) - BigInt(number)) / BigInt(step)) + 1
}

function exhausted(definition: SequenceDefinition, { last }: Position, count: number): NthError {
  const { step, minValue, maxValue, startValue } = definition
  const limit = step > 0 ? maxValue : minValue
  const asked = count === 1 ? 'a number' : `${count} numbers`
  const since = last === null ? 'none was issued yet' : `the last one was ${last}`
  if (limit !== null) {
    return new NthError(
      'SEQUENCE_EXHAUSTED',
      `This sequence does not have ${asked} left: ${since}, and it ends at ${limit}. Nothing was taken.`,
      { limit, ...(last !== null && { lastValue: last }) },
    )
  }
  return new NthError(
    'OUT_OF_RANGE',
    `This sequence does not have ${asked} left within ${Number.MIN_SAFE_INTEGER} to ${Number.MAX_SAFE_INTEGER}: ${since}. Nothing was taken.`,
    { value: last ?? startValue },
  )
}

function tooLong(count: number, most: number): NthError {
  return new NthError(
    'BAD_USER_INPUT',
    `Argument "count" must be at most ${most} for this sequence, which begins again after its last number; it is ${count}.`,
    { argument: 'count', limit: most },
  )
}
