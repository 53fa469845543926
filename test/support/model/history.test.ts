import { expect, it } from 'vitest'
import { type Event, isExplained } from './history.ts'

/** Somebody adds 1, and receives the sum. */
function added(from: number, to: number, sum: number | undefined): Event<number> {
  return {
    from,
    to,
    isDoubtful: sum === undefined,
    apply: (state) => (sum === undefined || sum === state + 1 ? state + 1 : undefined),
  }
}

it.each([
  ['one after the other', [added(1, 2, 1), added(3, 4, 2)], 2, true],
  ['at the same time, in either order', [added(1, 9, 2), added(2, 8, 1)], 2, true],
  [
    'one that received a number before another called who received a lower one',
    [added(1, 2, 2), added(3, 4, 1)],
    2,
    false,
  ],
  ['a number twice', [added(1, 9, 1), added(2, 8, 1)], 2, false],
  ['a number that is missing', [added(1, 9, 1), added(2, 8, 3)], 3, false],
  ['one more in the end than was returned', [added(1, 2, 1)], 2, false],
  ['one in doubt that counted', [added(1, 2, undefined), added(3, 4, 2)], 2, true],
  ['one in doubt that did not', [added(1, 2, undefined), added(3, 4, 1)], 1, true],
  ['one in doubt that counted before it was called', [added(1, 2, 2), added(3, 4, undefined)], 2, false],
])('judges %s', (_, events, found, isFine) => {
  expect(isExplained(events, 0, (state) => state === found)).toBe(isFine)
})
