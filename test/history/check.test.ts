import { writeFileSync } from 'node:fs'
// @module-tag random
import { expect, it } from 'vitest'
import { freshDatabase } from '../support/database/database.ts'
import { createRandom, runSize } from '../support/random.ts'
import { startService } from '../support/server/service.ts'
import { checkHistory } from './check.ts'
import { lineOf } from './history.ts'
import { recordHistory } from './realHistory.ts'

it('accepts what callers of two servers are answered', async () => {
  const target = await freshDatabase()
  const services = [await startService({ target }), await startService({ target })] as const
  const random = createRandom()
  const at = performance.now()
  const history = await recordHistory(services, { callers: 16, calls: runSize(3000, 20000), random })
  writeFileSync('/tmp/checker52.jsonl', history.map(lineOf).join(''))
  const recorded = performance.now()
  const result = checkHistory(history)
  console.log(history.length, recorded - at, performance.now() - recorded, result.components)
  expect(result.faults.map(({ message, call }) => [message.slice(0, 500), JSON.stringify(call)])).toEqual([])
  expect(result).toMatchObject({ faults: [], givenUp: [] })
})
