import { expect, it } from 'vitest'
import { freshDatabase } from '../support/database/database.ts'
import { collectStatements } from '../support/database/statements.ts'
import { openTestNth } from '../support/server/nth.ts'

const key = { namespace: 'n', name: 'c' }

it('reads a counter by name once, and then by the id that it has cached', async () => {
  const url = await freshDatabase()
  await openTestNth(url).counters.incrementBy(key, 1)
  const { counters } = openTestNth(url)
  const statements = collectStatements()
  for (const read of [counters.read, counters.values.read, counters.read])
    expect(await read(key)).toMatchObject({ ...key, value: 1 })
  expect(statements).toEqual([
    expect.stringContaining('c.name in'),
    expect.stringMatching(/select counter_id as id, version, value\s+from counter_value/),
    expect.stringContaining('where counter_id in'),
  ])
})
