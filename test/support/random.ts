import { inject, onTestFailed } from 'vitest'
import { mulberry32, type Random } from './mulberry32.ts'

export type { Random }

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

/**
 * Random numbers that the seed of this run repeats. fast-check gets the same seed,
 * in `setup.ts`. The seed is printed as the run begins, and where a test fails.
 *
 * @param stream which of the seed's streams of numbers, an integer
 */
export function createRandom(stream = 0): Random {
  const seed = inject('seed')
  onTestFailed(() => console.log(`To repeat its random numbers: SEED=${seed}`))
  return mulberry32(seed + stream * 0x9e3779b1)
}
