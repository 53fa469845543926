import { expect, it } from 'vitest'
import { backoffMs, RESTART } from '../../src/rules/errors.ts'

it('backoffMs: waits longer after each failure in a row, up to a limit, and not at all after none', () => {
  const pauses = [0, 1, 2, 3, 5, 6, 1000].map((failures) => backoffMs(RESTART, failures))
  expect(pauses).toEqual([0, 200, 400, 800, 3_200, 5_000, 5_000])
})
