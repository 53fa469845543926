import { inject, onTestFailed } from 'vitest'

/** How long random tests run: in `npm run test:fast`, `npm test` and `npm run test:long`. */
export type RunLength = 'fast' | 'normal' | 'long'

/** How much a random test does, by the length of this run. */
export function runSize(sizes: Record<RunLength, number>): number {
  return sizes[inject('runLength')]
}

/** Whether random runs are long enough to meet what is rare, as tests expect of them. */
export function meetsRareCases(): boolean {
  return inject('runLength') !== 'fast'
}

export interface Random {
  /** From 0 up to 1, without 1. */
  fraction(): number
  /** An integer from 0 up to a limit, without it. */
  below(limit: number): number
  /** Some items of a list, in random order. */
  sample<Item>(items: readonly Item[], count: number): Item[]
}

/**
 * Random numbers that the seed of this run repeats: mulberry32 (Tommy Ettinger, 2017). fast-check gets the same seed,
 * in `setup.ts`. The seed is printed as the run begins, and where a test fails.
 *
 * @param stream which of the seed's streams of numbers, an integer
 */
export function createRandom(stream = 0): Random {
  const seed = inject('seed')
  onTestFailed(() => console.log(`To repeat its random numbers: SEED=${seed}`))
  let state = (seed + stream * 0x9e3779b1) | 0
  function fraction(): number {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  return {
    fraction,
    below: (limit) => Math.floor(fraction() * limit),
    sample: (items, count) =>
      items
        .map((item) => ({ item, place: fraction() }))
        .toSorted((a, b) => a.place - b.place)
        .slice(0, count)
        .map(({ item }) => item),
  }
}
