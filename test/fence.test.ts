import { createConnection } from 'mysql2/promise'
import { expect, it, onTestFinished, vi } from 'vitest'
import { freshDatabase, query } from './support/database.ts'
import { hold } from './support/hold.ts'
import { openTestNth } from './support/nth.ts'
import { farAway } from './support/proxy.ts'
import { collectStatements } from './support/statements.ts'

const key = { namespace: 'n', name: 'c' }

it('has a row for each writer that flushed, and raises it with each flush', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  for (let time = 1; time <= 3; time++) {
    await counters.incrementBy(key, 1)
    expect(await query(target, 'select seq from fence')).toEqual([{ seq: time }])
  }
})

it('sweeps the rows of writers that have not been touched for a week, and no others', async () => {
  const target = await freshDatabase()
  await query(
    target,
    'insert into fence (id, touched_at) values (1, utc_timestamp() - interval 8 day), (2, utc_timestamp() - interval 6 day)',
  )
  openTestNth(target, { runsJobs: true })
  await expect.poll(() => query(target, 'select id from fence')).toEqual([{ id: 2 }])
})

it('touches its row once a day, in one text, which no flush can get in between', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  await counters.incrementBy(key, 1)
  await query(target, 'update fence set touched_at = utc_timestamp() - interval 6 day')
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 25 * 3_600_000 })
  onTestFinished(() => void vi.useRealTimers())
  const statements = collectStatements('fence')
  await expect
    .poll(() => statements)
    .toEqual([expect.stringMatching(/^update fence set touched_at[^;]*;\ncommit$/)])
  const isTouched = 'select touched_at > utc_timestamp() - interval 1 minute as isTouched from fence'
  await expect.poll(() => query(target, isTouched)).toEqual([{ isTouched: 1 }])
})

it('touches no row while its writer has begun a flush, which the COMMIT of that would end', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  // Timers of one duration fire in the order in which they began: its heartbeat comes after that of the first.
  const idle = openTestNth(target)
  await counters.incrementBy(key, 1)
  const [busy] = await query(target, 'select id from fence')
  await idle.counters.incrementBy(key, 1)
  const statements = collectStatements('update fence')
  const holder = await createConnection(target)
  onTestFinished(() => holder.destroy())
  await holder.query('lock tables counter_value write')
  const call = counters.incrementBy(key, 1)
  await expect.poll(() => statements).toEqual([expect.stringMatching(/^start transaction;/)])
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 25 * 3_600_000 })
  onTestFinished(() => void vi.useRealTimers())
  const touched = () => statements.flatMap((text) => /set touched_at[^;]*id = (\d+)/.exec(text)?.[1] ?? [])
  const ofIdle = () => touched().filter((id) => id !== String(busy?.id))
  for (const touches of [1, 2]) {
    await expect.poll(ofIdle).toHaveLength(touches)
    vi.setSystemTime(Date.now() + 25 * 3_600_000)
  }
  expect(touched()).not.toContain(String(busy?.id))
  await holder.query('unlock tables')
  expect((await call).value).toBe(3)
})

it('touches its row also after a flush that was rolled back because nobody waited for it any more', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target, { timeoutMs: 1000 })
  await expect.poll(() => counters.incrementBy(key, 0).catch(() => undefined)).toMatchObject({ value: 0 })
  const holder = await createConnection(target)
  onTestFinished(() => holder.destroy())
  await holder.query('lock tables counter_value write')
  await expect(counters.incrementBy(key, 1)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  const statements = collectStatements()
  await holder.query('unlock tables')
  await expect.poll(() => statements).toContain('rollback')
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 25 * 3_600_000 })
  onTestFinished(() => void vi.useRealTimers())
  await expect.poll(() => statements).toContainEqual(expect.stringMatching(/^update fence set touched_at/))
})

it.each([false, true])(
  'touches its row also after a flush that nobody waited for when its connection was open; far away: %s',
  async (isFar) => {
    const target = await freshDatabase()
    await openTestNth(target).counters.define(key, { periods: [] })
    const { counters } = openTestNth(isFar ? await farAway(target) : target, { timeoutMs: 1500 })
    const holder = await createConnection(target)
    onTestFinished(() => holder.destroy())
    await holder.query('lock tables fence write')
    const statements = collectStatements('fence')
    await expect(counters.incrementBy(key, 1)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    await holder.query('unlock tables')
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 25 * 3_600_000 })
    onTestFinished(() => void vi.useRealTimers())
    const id = /values \((\d+)/.exec(statements[0] ?? '')?.[1]
    const touch = new RegExp(`^update fence set touched_at[^;]*id = ${id}`)
    await expect.poll(() => statements).toContainEqual(expect.stringMatching(touch))
  },
)

it('goes on with a new row when its own is taken away, if lost commits are accepted', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target, { acceptsLostCommits: true })
  await counters.incrementBy(key, 1)
  await query(target, 'delete from fence')
  expect((await counters.incrementBy(key, 1)).value).toBe(2)
  expect(await query(target, 'select seq from fence')).toEqual([{ seq: 1 }])
})

it('goes on with a new row also when its own is taken away while it waits for a counter', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target, { acceptsLostCommits: true })
  const other = { namespace: 'n', name: 'other' }
  await Promise.all([counters.incrementBy(key, 1), counters.incrementBy(other, 1)])
  const holder = await hold(target, 'c')
  const statements = collectStatements()
  const calls = [counters.incrementBy(key, 1), counters.incrementBy(other, 1)] as const
  await expect.poll(() => statements).toContainEqual(expect.stringMatching(/^start transaction;/))
  // It has to wait until the flush is rolled back, and comes before the next one.
  await query(target, 'delete from fence')
  expect((await calls[1]).value).toBe(2)
  expect(await query(target, 'select seq from fence where seq > 0')).toEqual([{ seq: 1 }])
  await holder.query('rollback')
  expect((await calls[0]).value).toBe(2)
})

it('waits for the row of a counter that is not to be seen, and says to an operator what is missing', async () => {
  const target = await freshDatabase()
  const { counters, faults } = openTestNth(target)
  await counters.incrementBy(key, 1)
  await query(target, 'create table kept as select * from counter_value', 'delete from counter_value')
  const call = counters.incrementBy(key, 1)
  await expect.poll(() => faults.map(String)).toEqual([expect.stringContaining('The writer finds no row')])
  await query(target, 'insert into counter_value select * from kept')
  expect((await call).value).toBe(2)
})

it('says after the deadline that a change was not made whose row is missing', async () => {
  const target = await freshDatabase()
  await openTestNth(target).counters.incrementBy(key, 1)
  const { counters } = openTestNth(target, { timeoutMs: 1000 })
  await query(target, 'delete from counter_value')
  await expect(counters.incrementBy(key, 1)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
})
