import { expect, it, onTestFinished, vi } from 'vitest'
import { Health } from '../../src/mysql/health.ts'
import { openHosts } from '../../src/mysql/hosts.ts'
import { openDatabase } from '../../src/mysql/pool.ts'
import { SILENT } from '../../src/operations/log.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase } from '../support/database/database.ts'
import { startProxy } from '../support/database/proxy.ts'
import { openTestNth } from '../support/server/nth.ts'
import { soon } from '../support/soon.ts'

const key = { namespace: 'n', name: 'c' }
const CONFLICT = { errno: 1213 }
const NAMESPACE = /from namespace n where n\.name in/

it.each([
  ['what a counter is', { periods: null }, /^start transaction;\nupdate fence/],
  ['what a sequence is', { timeZone: null }, /from sequence s force index \(primary\)\s+where s\.id in/],
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

/** A pool on a database through a proxy, which may have connections vanish, and what its health reports. */
async function reportingPool(timeLimitMs: number, vanishes: (connection: number) => boolean) {
  let newest = 0
  const target = await startProxy(await freshDatabase(), (_, connection) => {
    newest = Math.max(newest, connection)
    return vanishes(connection) ? 'vanishes' : 'passes'
  })
  const reports: unknown[] = []
  const health = new Health({ notices: { ...SILENT, warn: (message) => reports.push(message) } })
  const database = openDatabase(openHosts([target]), {
    timeLimitMs,
    maxPending: 100,
    health,
  })
  onTestFinished(database.close)
  return { database, health, reports, opened: () => newest }
}

it('does not call a database unreachable whose connections are all in use', async () => {
  const { database, reports } = await reportingPool(20_000, () => false)
  const slow = upTo(40).map(() => database.withRetry((connection) => connection.query('do sleep(0.2)')))
  const late = database.withRetry(async () => undefined, { deadline: performance.now() + 500 })
  await expect(late).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  await Promise.all(slow)
  expect(reports).toEqual([])
})

it('does not call a database unreachable when an attempt fails that began before another succeeded', async () => {
  const { database, reports, opened } = await reportingPool(6000, (connection) => connection === 1)
  const first = database.withRetry(async () => 'first')
  await expect.poll(opened).toBe(1)
  expect(await database.withRetry(async () => 'second')).toBe('second')
  expect(await first).toBe('first')
  expect(reports).toEqual([])
})

it('does not call a database reachable because of a connection that answered before', {
  tags: 'slow',
}, async () => {
  let isFrozen = false
  const { database, health, reports } = await reportingPool(3000, () => isFrozen)
  await Promise.all(upTo(5).map(() => database.withRetry((connection) => connection.query('do sleep(0.1)'))))
  isFrozen = true
  const reason = new Error('Another connection can not be opened')
  health.notConnected(performance.now(), reason)
  const read = database.withRetry((connection) => connection.query('do 1'))
  await expect(read).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  isFrozen = false
  await database.withRetry((connection) => connection.query('do 1'))
  expect(reports).toEqual([
    'Database unavailable: Another connection can not be opened.',
    'Database available again.',
  ])
})
