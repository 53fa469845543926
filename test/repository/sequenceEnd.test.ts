import { expect, it } from 'vitest'
import { query } from '../support/database/database.ts'
import { startService } from '../support/server/service.ts'

it('ends at the end of the safe range, taking nothing for a block that does not fit', async () => {
  const { ask, refusal, target } = await startService()
  const next =
    'mutation($count: Int!) { nextInSequence(name: "s", count: $count) { value lastValue group { nextValue } } }'
  await ask(next, { count: 1 })
  await query(target, `update sequence_value set value = ${Number.MAX_SAFE_INTEGER - 5}`)
  const refused = { code: 'OUT_OF_RANGE', value: Number.MAX_SAFE_INTEGER - 5 }
  expect(await refusal(next, { count: 6 })).toEqual(refused)
  expect((await ask(next, { count: 5 })).nextInSequence).toEqual({
    value: Number.MAX_SAFE_INTEGER - 4,
    lastValue: Number.MAX_SAFE_INTEGER,
    group: { nextValue: null },
  })
  expect(await refusal(next, { count: 1 })).toEqual({ code: 'OUT_OF_RANGE', value: Number.MAX_SAFE_INTEGER })
})
