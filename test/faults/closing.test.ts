import { describe, expect, it } from 'vitest'
import { freshDatabase } from '../support/database/database.ts'
import { startProxy } from '../support/database/proxy.ts'
import { openTestNth } from '../support/server/nth.ts'

describe('closing', () => {
  it.each([
    ['ends a connection', 'is cut off'],
    ['is silent', 'vanishes'],
  ] as const)('closes without an error while its database %s', async (_, delivery) => {
    let closed: Promise<void> | undefined
    const target = await startProxy(await freshDatabase(), (statement) => {
      if (!/from namespace/.test(statement)) return 'passes'
      closed ??= nth.close()
      return delivery
    })
    const nth = openTestNth(target, { timeoutMs: 1000 })
    await expect(nth.counters.read({ namespace: 'n', name: 'c' })).rejects.toThrow()
    expect(closed).toBeInstanceOf(Promise)
    await closed
  })
})
