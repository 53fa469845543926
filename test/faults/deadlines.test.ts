import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { freshDatabase } from '../support/database/database.ts'
import { startProxy, TEXTS } from '../support/database/proxy.ts'
import { openTestNth } from '../support/server/nth.ts'
import { soon } from '../support/soon.ts'

const key = { namespace: 'n', name: 'c' }
const CONFLICT = { errno: 1213 }
const NAMESPACE = /from namespace n where n\.name in/

describe('the deadline of a call', () => {
  it.each([
    ['what a counter is', { periods: null }, TEXTS.begins],
    ['what a sequence is', { timeZone: null }, /from sequence s force index \(primary\)\s+where s\.id =/],
  ])(
    'has the reading of defaults and the change of %s share one deadline',
    { tags: 'slow' },
    async (_, change, refused) => {
      const TIMEOUT_MS = 3000
      let readableAt = 0
      const target = await startProxy(await freshDatabase(), (statement) => {
        if (NAMESPACE.test(statement)) return performance.now() < readableAt ? CONFLICT : 'passes'
        return readableAt > 0 && refused.test(statement) ? CONFLICT : 'passes'
      })
      const { counters, sequences } = openTestNth(target, { timeoutMs: TIMEOUT_MS })
      await counters.reset(key, 0)
      await sequences.define(key, {})
      // The reading takes most of the time, and the change would take all that it is given.
      readableAt = performance.now() + 0.8 * TIMEOUT_MS
      const changed: Promise<unknown> =
        'periods' in change ? counters.define(key, change) : sequences.define(key, change)
      await expect(soon('the refusal', changed, 1.6 * TIMEOUT_MS)).rejects.toMatchObject({
        code: 'UNAVAILABLE',
      })
    },
  )

  it('answers at its deadline though the clock is put back', async () => {
    const target = await startProxy(await freshDatabase(), (statement) =>
      /counter_value v/.test(statement) ? CONFLICT : 'passes',
    )
    const { counters } = openTestNth(target, { timeoutMs: 1000 })
    vi.useFakeTimers({ toFake: ['Date'] })
    onTestFinished(() => void vi.useRealTimers())
    const read = counters.read(key).catch(({ code }) => code)
    vi.setSystemTime(Date.now() - 60_000)
    expect(await soon('the answer', read)).toBe('UNAVAILABLE')
  })
})
