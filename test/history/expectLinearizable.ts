import { join } from 'node:path'
import { expect } from 'vitest'
import { makeTemporaryDirectory } from '../support/temporary.ts'
import { checkHistory } from './check.ts'
import type { CallRecord } from './history.ts'
import { summaryOf, writeFaults } from './report.ts'

/** Fails unless a history is linearizable, and then keeps what is wrong as files. */
export async function expectLinearizable(history: readonly CallRecord[]): Promise<void> {
  const result = checkHistory(history)
  if (result.faults.length + result.givenUp.length === 0) return
  const directory = join(await makeTemporaryDirectory(), 'faults')
  writeFaults(directory, result)
  expect.fail(`${summaryOf(result)}\nSee ${directory}`)
}
