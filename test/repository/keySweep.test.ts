import { expect, it } from 'vitest'
import type { Database } from '../../src/mysql/pool.ts'
import { sweepKeys } from '../../src/repository/jobs.ts'
import { claimOf } from '../../src/rules/idempotency.ts'
import { inParallel } from '../support/client/client.ts'
import { freshDatabase, openTestDatabase, query } from '../support/database/database.ts'
import { startProxy } from '../support/database/proxy.ts'
import { sessionClocks } from '../support/database/sessionClocks.ts'
import { collectStatements } from '../support/database/statements.ts'
import { openTestNth } from '../support/server/nth.ts'

const DAY_MS = 86_400_000

const sweep = (database: Database, ageMs: number) =>
  sweepKeys({ database, now: new Date(), shouldContinue: () => true }, ageMs)

it.each([
  ['a millisecond before the end of its lifetime', -1, true],
  ['at the very end of its lifetime', 0, false],
])('idempotencyKey: judges a key alike in calls and sweeps, %s', async (_, byMs, isReplayed) => {
  const ttlMs = 3_600_000
  const [clock = expect.fail('There is one')] = sessionClocks(1, Date.parse('2027-02-28T12:00:00.250Z'))
  const target = clock.of(await freshDatabase())
  const { counters } = openTestNth(target, { keyTtlMs: ttlMs })
  const increment = () =>
    counters.incrementBy({ namespace: 'n', name: 'c' }, 1, { claim: claimOf('n', 'k', []) })
  await increment()
  clock.at += ttlMs + byMs
  // What still has its result, it keeps.
  if (isReplayed) await sweep(openTestDatabase(target), ttlMs)
  expect(await increment()).toMatchObject({ value: isReplayed ? 1 : 2, isReplayed })
  expect(await increment()).toMatchObject({ value: isReplayed ? 1 : 2, isReplayed: true })
})

it('sweepKeys: sweeps old keys in batches, while others are written', async () => {
  const target = await freshDatabase()
  const database = openTestDatabase(target)
  const { counters } = openTestNth(target)
  const key = { namespace: 'n', name: 'c' }
  await inParallel(600, 1200, (index) =>
    counters.incrementBy(key, 1, { claim: claimOf('n', `old ${index}`, []) }),
  )
  await query(target, "update idempotency_key set claimed_at = '2026-01-01'")
  const statements = collectStatements()
  await Promise.all([
    sweep(database, DAY_MS),
    inParallel(50, 300, (index) => counters.incrementBy(key, 1, { claim: claimOf('n', `new ${index}`, []) })),
  ])
  expect(statements.filter((text) => text.startsWith('delete from idempotency_key'))).toHaveLength(3)
  expect(await query(target, 'select count(*) as kept from idempotency_key')).toEqual([{ kept: 300 }])
  expect((await counters.read(key)).value).toBe(1500)
})

it.each([
  ['ahead', 3_600_000],
  ['behind', -3_600_000],
])(
  'idempotencyKey: knows a repeat through a process whose clock is an hour %s, and sweeps no key for that',
  async (_, byMs) => {
    const target = await freshDatabase()
    const keyTtlMs = 1_800_000
    const claim = claimOf('n', 'k', [])
    const key = { namespace: 'n', name: 'c' }
    const { counters } = openTestNth(target, { keyTtlMs })
    const other = openTestNth(target, { keyTtlMs, now: () => new Date(Date.now() + byMs) })
    const first = await counters.incrementBy(key, 1, { claim })
    expect(await other.counters.incrementBy(key, 1, { claim })).toMatchObject({ value: 1, isReplayed: true })
    // What was claimed by a clock that is behind is as young as all else.
    const late = { claim: claimOf('n', 'late', []) }
    await other.counters.incrementBy(key, 1, late)
    await sweep(openTestDatabase(target), keyTtlMs)
    expect(await query(target, 'select count(*) as kept from idempotency_key')).toEqual([{ kept: 2 }])
    expect(await counters.incrementBy(key, 1, late)).toMatchObject({ value: 2, isReplayed: true })
    // The instant that callers receive is that of the process which made the change.
    expect((await other.counters.incrementBy(key, 1, { claim })).at).toEqual(first.at)
  },
)

it('sweepKeys: does not sweep a key that is used again after it was found old', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  const again = () => counters.incrementBy({ namespace: 'n', name: 'c' }, 1, { claim: claimOf('n', 'k', []) })
  await again()
  await query(target, "update idempotency_key set claimed_at = '2026-01-01'")
  const proxied = await startProxy(target, async (statement) => {
    if (statement.startsWith('delete')) await again()
    return 'passes' as const
  })
  await sweep(openTestDatabase(proxied), DAY_MS)
  expect(await again()).toMatchObject({ value: 2, isReplayed: true })
})
