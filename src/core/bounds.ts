import { NthError } from './errors.ts'

/** What a counter's value may be. */
export interface Bounds {
  /** The lowest value allowed; null: none. */
  minValue: number | null
  /** The highest value allowed; null: none. */
  maxValue: number | null
  overflow: Overflow
}

/** What an addition that would cross a bound does: it is refused, or applied as far as it fits. */
export type Overflow = 'REJECT' | 'SATURATE'

/** What is to change; undefined: stays as it is; null: back to the default. */
export type BoundsChange = { [Part in keyof Bounds]?: Bounds[Part] | null | undefined }

export const UNBOUNDED: Bounds = { minValue: null, maxValue: null, overflow: 'REJECT' }

/** A bound that a value is beyond. */
export interface Crossed {
  side: 'minValue' | 'maxValue'
  limit: number
}

/** The bound that a value is beyond; undefined: none. */
export function crossed({ minValue, maxValue }: Bounds, value: number): Crossed | undefined {
  if (maxValue !== null && value > maxValue) return { side: 'maxValue', limit: maxValue }
  return minValue !== null && value < minValue ? { side: 'minValue', limit: minValue } : undefined
}

/** The bounds after a change of them; an error if they leave no value. */
export function changedBounds(present: Bounds = UNBOUNDED, change: BoundsChange): Bounds | NthError {
  const bounds: Bounds = {
    minValue: change.minValue === undefined ? present.minValue : change.minValue,
    maxValue: change.maxValue === undefined ? present.maxValue : change.maxValue,
    overflow: change.overflow === undefined ? present.overflow : (change.overflow ?? UNBOUNDED.overflow),
  }
  const { minValue, maxValue } = bounds
  if (minValue === null || maxValue === null || minValue <= maxValue) return bounds
  const argument = change.minValue === undefined ? 'definition.maxValue' : 'definition.minValue'
  return new NthError(
    'BAD_USER_INPUT',
    `The lowest value allowed, ${minValue}, would be above the highest, ${maxValue}; nothing was changed.`,
    { argument },
  )
}

/** Why a value doesn't fit bounds that it is to have; undefined: it does. */
export function misfit(bounds: Bounds, value: number): NthError | undefined {
  const beyond = crossed(bounds, value)
  if (!beyond) return undefined
  const { side, limit } = beyond
  const word = side === 'maxValue' ? 'above' : 'below'
  return new NthError(
    'LIMIT_REACHED',
    `The value is ${value}, ${word} a ${side} of ${limit}: reset it first, or choose another bound. Nothing was changed.`,
    { argument: `definition.${side}`, limit, value },
  )
}
