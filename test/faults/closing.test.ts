import { expect, it } from 'vitest'
import { openStore } from '../../src/mysql/store.ts'
import { freshDatabase } from '../support/database.ts'
import { startProxy } from '../support/proxy.ts'

it('closes without an error while its database ends a connection', async () => {
  let closed: Promise<void> | undefined
  const target = await startProxy(await freshDatabase(), (statement) => {
    if (!/from namespace/.test(statement)) return 'passes'
    closed ??= store.close()
    return 'is cut off'
  })
  const store = openStore(target, {
    timeLimitMs: 1000,
    maxPending: 100,
    keyTtlMs: 1000,
    runsJobs: false,
    onReachable: () => undefined,
    onFault: () => undefined,
  })
  await expect(store.counters.read([{ namespace: 'n', name: 'c' }])).rejects.toThrow()
  expect(closed).toBeInstanceOf(Promise)
  await closed
})
