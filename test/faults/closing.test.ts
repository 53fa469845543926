import { expect, it } from 'vitest'
import { freshDatabase } from '../support/database.ts'
import { openTestStore } from '../support/nth.ts'
import { startProxy } from '../support/proxy.ts'

it('closes without an error while its database ends a connection', async () => {
  let closed: Promise<void> | undefined
  const target = await startProxy(await freshDatabase(), (statement) => {
    if (!/from namespace/.test(statement)) return 'passes'
    closed ??= store.close()
    return 'is cut off'
  })
  const store = openTestStore(target, 1000)
  await expect(store.counters.read([{ namespace: 'n', name: 'c' }])).rejects.toThrow()
  expect(closed).toBeInstanceOf(Promise)
  await closed
})
