import { type Change, withChange } from '../change.ts'
import { NthError } from '../errors.ts'

/** Null: unbounded. */
export interface Bounds {
  minValue: number | null
  maxValue: number | null
  /** Effect of an addition that would cross a bound: it is refused, or applied up to the bound. */
  overflow: 'REJECT' | 'SATURATE'
}

export const UNBOUNDED: Bounds = { minValue: null, maxValue: null, overflow: 'REJECT' }

/** A bound that a value crosses. */
export type Crossed = { side: 'minValue' | 'maxValue'; limit: number }

/** The bound that a value crosses; undefined: none. */
export function crossed(
  { minValue, maxValue }: Pick<Bounds, 'minValue' | 'maxValue'>,
  value: number,
): Crossed | undefined {
  if (maxValue !== null && value > maxValue) return { side: 'maxValue', limit: maxValue }
  return minValue !== null && value < minValue ? { side: 'minValue', limit: minValue } : undefined
}

/** The bounds after a change; an error if they exclude every value. */
export function changedBounds(present: Bounds = UNBOUNDED, change: Change<Bounds>): Bounds | NthError {
  const bounds = withChange(present, change, UNBOUNDED)
  const { minValue, maxValue } = bounds
  if (minValue === null || maxValue === null || minValue <= maxValue) return bounds
  const argument = change.minValue === undefined ? 'definition.maxValue' : 'definition.minValue'
  const message = `minValue ${minValue} would be above maxValue ${maxValue}. Nothing was changed.`
  return new NthError('BAD_USER_INPUT', message, { argument })
}

/** The error for a value outside new bounds; undefined: it is inside. */
export function misfit(bounds: Bounds, value: number): NthError | undefined {
  const beyond = crossed(bounds, value)
  if (!beyond) return undefined
  const { side, limit } = beyond
  const word = side === 'maxValue' ? 'above' : 'below'
  const message = `The current value ${value} is ${word} ${side} ${limit}. Reset the counter first, or set another bound. Nothing was changed.`
  return new NthError('LIMIT_REACHED', message, { argument: `definition.${side}`, limit, value })
}
