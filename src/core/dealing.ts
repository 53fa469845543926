import { NthError } from './errors.ts'

/** The values from which a step may start so that its result stays in the safe range, both ends included. */
export interface Window {
  lowest: number
  highest: number
}

export interface Dealt {
  value: number
  previousValue: number
}

/**
 * The present values that `delta` may be added to without leaving -(2^53-1) to 2^53-1. Both ends are exact
 * for every safe `delta`: each is a difference that stays in the safe range itself.
 */
export function windowFor(delta: number): Window {
  return {
    lowest: delta < 0 ? Number.MIN_SAFE_INTEGER - delta : Number.MIN_SAFE_INTEGER,
    highest: delta > 0 ? Number.MAX_SAFE_INTEGER - delta : Number.MAX_SAFE_INTEGER,
  }
}

/**
 * What a caller is told whose `delta` met `previousValue`: the same decision as the database took with
 * `windowFor(delta)`.
 *
 * @throws {NthError} OUT_OF_RANGE where the result would leave the safe range; nothing was changed.
 */
export function deal(previousValue: number, delta: number): Dealt {
  const { lowest, highest } = windowFor(delta)
  if (previousValue < lowest || previousValue > highest) {
    throw new NthError(
      'OUT_OF_RANGE',
      `${previousValue} plus ${delta} would leave the range of ${Number.MIN_SAFE_INTEGER} to ${Number.MAX_SAFE_INTEGER}; nothing was changed.`,
      { value: previousValue },
    )
  }
  return { value: previousValue + delta, previousValue }
}
