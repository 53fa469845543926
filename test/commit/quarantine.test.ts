import { expect, it, vi } from 'vitest'
import { Call } from '../../src/commit/call.ts'
import { openQuarantine } from '../../src/commit/groupCommit.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase } from '../support/database/database.ts'
import { hold } from '../support/database/hold.ts'
import { startProxy } from '../support/database/proxy.ts'
import { AMPLE_MS, openTestNth } from '../support/server/nth.ts'

const key = { namespace: 'n', name: 'held' }

/** Opens counters on a new database, and counts the attempts to lock rows. */
async function startCounting() {
  const database = await freshDatabase()
  let count = 0
  const target = await startProxy(database, (statement) => {
    if (statement.includes('skip locked')) count += 1
    return 'passes'
  })
  return { ...openTestNth(target, { timeoutMs: AMPLE_MS }), database, attempts: () => count }
}

it('keeps every key that calls wait for, however many there are', () => {
  const quarantine = openQuarantine()
  const waiting = upTo(1500).map((index) => {
    const call = new Call(
      { operations: [], mode: 'one', missingRows: 'create' },
      0,
      Infinity,
      () => undefined,
    )
    quarantine.add(`key ${index}`, [call])
    return call
  })
  const found: Call[] = []
  for (let tried = quarantine.next(); tried; tried = quarantine.next()) found.push(...tried.calls)
  expect(found).toEqual(waiting)
})

it('moves each call only a few times for an attempt to lock its row, however many wait', async () => {
  const CALLERS = 200
  const { counters, database, attempts } = await startCounting()
  await counters.incrementBy(key, 0)
  const holder = await hold(database, 'held')
  const moves = vi.spyOn(Call.prototype, 'waitIn')
  const held = Promise.all(upTo(CALLERS).map(() => counters.incrementBy(key, 1)))
  await expect.poll(attempts).toBeGreaterThan(10)
  expect(moves.mock.calls.length).toBeLessThan(4 * CALLERS * attempts())
  await holder.end()
  expect((await held).map(({ value }) => value)).toEqual(upTo(CALLERS))
})

it('resets a counter with slots once another session no longer locks all of them', async () => {
  const { counters, database, attempts } = await startCounting()
  await counters.define(key, { slots: 4 })
  for (const _ of upTo(20)) await counters.incrementBy(key, 1)
  const holder = await hold(database, 'held')
  const reset = counters.reset(key, 100)
  await expect.poll(attempts).toBeGreaterThan(3)
  await holder.query('rollback')
  expect(await reset).toMatchObject({ value: 100, previousValue: 20 })
})
