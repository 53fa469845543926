import type { Result } from './bench.ts'
import type { Figures } from './load/measure.ts'

export type Figure = keyof Figures

/** The median of a figure over all rounds. */
export function medianOf({ rounds }: Result, figure: Figure): number {
  return middleOf(rounds.map((figures) => figures[figure]))
}

/** The median of some values. */
export function middleOf(values: readonly number[]): number {
  const inOrder = values.toSorted((a, b) => a - b)
  const middle = (inOrder.length - 1) / 2
  const [low = Number.NaN, high = Number.NaN] = [inOrder[Math.floor(middle)], inOrder[Math.ceil(middle)]]
  return (low + high) / 2
}
