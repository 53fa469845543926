import { tracingChannel } from 'node:diagnostics_channel'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openMetrics } from '../../src/operations/metrics.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase } from '../support/database/database.ts'
import { openTestNth } from '../support/server/nth.ts'

const key = { namespace: 'n', name: 'a' }

describe('nth_database_round_trips_total', () => {
  it('counts the round trips of flushes and of reads, and has the driver trace none of its queries', async () => {
    const metrics = openMetrics('0.0.0')
    onTestFinished(metrics.close)
    const trips = async () => {
      const all = await metrics.read()
      return all.find(({ name }) => name === 'nth_database_round_trips_total')?.values[0]?.value ?? 0
    }
    const { counters } = openTestNth(await freshDatabase())
    await counters.incrementBy(key, 1)
    const before = await trips()
    for (const _ of upTo(20)) await counters.incrementBy(key, 1)
    const changed = await trips()
    expect(changed).toBeGreaterThanOrEqual(before + 20)
    for (const _ of upTo(20)) await counters.read(key)
    expect(await trips()).toBeGreaterThanOrEqual(changed + 20)
    expect(tracingChannel('mysql2:query').hasSubscribers).toBe(false)
  })
})
