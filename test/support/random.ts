import { inject, onTestFailed } from 'vitest'
import { mulberry32, type Random } from './mulberry32.ts'

export type { Random }

/**
 * How much a random test does: `short` in `npm test`; `long`, RUNS times, in the second part of `npm run test:all`. A file
 * that calls this has the tag `random`.
 */
export function runSize(short: number, long: number): number {
  return inject('longRuns') * long || short
}

/** Whether random runs are long enough to meet what is rare, as tests expect of them. */
export function meetsRareCases(): boolean {
  return inject('longRuns') > 0
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
