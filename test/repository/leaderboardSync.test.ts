import { expect, it } from 'vitest'
import { ER } from '../../src/mysql/errors.ts'
import { pauseMs } from '../../src/repository/leaderboard.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { startProxy } from '../support/database/proxy.ts'
import { openTestNth } from '../support/server/nth.ts'

/** Within it, and some time for a machine that has much else to do, another process's changes must be listed. */
it('lists soon what another process has changed', async () => {
  const target = await freshDatabase()
  const [one, other] = [openTestNth(target).counters, openTestNth(target).leaderboard]
  const page = { order: 'VALUE_DESC', limit: 10, fromEnd: false } as const
  for (const delta of [5, 2]) {
    await one.incrementBy({ namespace: 'n', name: 'c' }, delta)
    const values = async () => (await other.list('n', page)).map(({ listedValue }) => listedValue)
    await expect.poll(values).toEqual([delta === 5 ? 5 : 7])
  }
})

it('pauses for a second, or longer after a long copy', () => {
  expect([0, 50, 100, 10_000].map(pauseMs)).toEqual([1000, 1000, 1900, 5000])
})

it('finds what a process that was killed had not listed yet, and what was changed by hand', async () => {
  const target = await freshDatabase()
  const page = { order: 'VALUE_DESC', limit: 10, fromEnd: false } as const
  const before = openTestNth(target)
  await before.counters.incrementMany(
    'n',
    upTo(3).map((index) => ({ name: `c${index}`, delta: index })),
  )
  await before.counters.delete({ namespace: 'n', name: 'c3' })
  // With this it has nothing left to list.
  await before.leaderboard.list('n', page)
  await query(
    target,
    'delete from leaderboard',
    'update counter_value set value = value * 10, revision = revision + 1',
    "insert into leaderboard values (3, 1, 3, '2026-01-01', 1)",
    // Another process has just looked, but before this one started.
    "insert into scheduled_job values ('scan leaderboard', utc_timestamp() - interval 1 minute)",
  )
  const { leaderboard } = openTestNth(target, { runsJobs: true })
  const values = async () => (await leaderboard.list('n', page)).map(({ listedValue }) => listedValue)
  await expect.poll(values).toEqual([20, 10])
  const orphans = () => query(target, 'select counter_id from leaderboard where counter_id = 3')
  await expect.poll(orphans).toEqual([])
})

it('lets all callers share one sync, and lists what is stored when the sync fails', async () => {
  const target = await freshDatabase()
  let isOut = false
  let copies = 0
  const proxied = await startProxy(target, (statement) => {
    const isCopy = statement.includes('insert into leaderboard')
    copies += Number(isCopy)
    return isCopy && isOut ? { errno: ER.LOCK_WAIT_TIMEOUT } : 'passes'
  })
  const { counters, leaderboard } = openTestNth(proxied)
  const list = () => leaderboard.list('n', { order: 'VALUE_DESC', limit: 10, fromEnd: false })
  await counters.incrementBy({ namespace: 'n', name: 'c' }, 1)
  const pages = await Promise.all(upTo(50).map(list))
  expect(pages.map((page) => page.map(({ listedValue }) => listedValue))).toEqual(upTo(50).map(() => [1]))
  expect(copies).toBeLessThan(5)
  isOut = true
  await counters.incrementBy({ namespace: 'n', name: 'c' }, 1)
  const late = await Promise.all(upTo(50).map(list))
  expect(late.map((page) => page.map(({ listedValue }) => listedValue))).toEqual(upTo(50).map(() => [1]))
  isOut = false
  await expect.poll(async () => (await list()).map(({ listedValue }) => listedValue)).toEqual([2])
})

it('lists values as they were last, whatever the order in which two processes copy them', async () => {
  const target = await freshDatabase()
  const processes = [openTestNth(target), openTestNth(target)]
  const page = { order: 'VALUE_DESC', limit: 10, fromEnd: false } as const
  await Promise.all(
    upTo(400).map(async (index) => {
      const nth = processes[index % 2]
      await nth?.counters.incrementBy({ namespace: 'n', name: 'c' }, 1)
      if (index % 10 < 2) await nth?.leaderboard.list('n', page)
    }),
  )
  for (const { leaderboard } of processes) await leaderboard.list('n', page)
  expect((await processes[0]?.leaderboard.list('n', page))?.map(({ listedValue }) => listedValue)).toEqual([
    400,
  ])
})
