import type { Result } from './bench.ts'
import type { Figures } from './load/measure.ts'

export type Figure = keyof Figures

/** The median of a figure over all rounds. */
export function medianOf({ rounds }: Result, figure: Figure): number {
  const values = rounds.map((figures) => figures[figure]).sort((a, b) => a - b)
  const middle = (values.length - 1) / 2
  const [low = Number.NaN, high = Number.NaN] = [values[Math.floor(middle)], values[Math.ceil(middle)]]
  return (low + high) / 2
}
