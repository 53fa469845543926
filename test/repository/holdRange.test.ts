import { expect, it } from 'vitest'
import { freshDatabase } from '../support/database/database.ts'
import { openTestNth } from '../support/server/nth.ts'

it('confirmHold: is refused beyond the range of numbers, and works once there is room', async () => {
  const { counters, holds } = openTestNth(await freshDatabase())
  const key = { namespace: 'n', name: 'c' }
  await counters.reset(key, Number.MAX_SAFE_INTEGER - 1)
  const { token } = await holds.hold('n', [{ name: 'c', delta: 1 }], { ttlMs: 60_000, longestMs: 60_000 })
  await counters.reset(key, Number.MAX_SAFE_INTEGER)
  const confirm = async () => holds.confirm(await holds.read(token))
  await expect(confirm()).rejects.toMatchObject({ code: 'OUT_OF_RANGE' })
  await counters.reset(key, 5)
  expect(await confirm()).toMatchObject([{ value: 6 }])
})
