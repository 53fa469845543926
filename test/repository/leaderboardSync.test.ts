import { expect, it } from 'vitest'
import { ER } from '../../src/mysql/errors.ts'
import { pauseMs } from '../../src/repository/leaderboard.ts'
import { withReaders } from '../../src/repository/leaderboardSync.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, openTestDatabase, query } from '../support/database/database.ts'
import { startProxy } from '../support/database/proxy.ts'
import { collectStatements } from '../support/database/statements.ts'
import { openTestNth } from '../support/server/nth.ts'

/** Within it, and some time for a machine that has much else to do, another process's changes must be listed. */
it('leaderboard sync: lists soon what another process has changed', async () => {
  const target = await freshDatabase()
  const [one, other] = [openTestNth(target).counters, openTestNth(target).leaderboard]
  const page = { order: 'VALUE_DESC', limit: 10, fromEnd: false } as const
  for (const delta of [5, 2]) {
    await one.incrementBy({ namespace: 'n', name: 'c' }, delta)
    const values = async () => (await other.list('n', page)).map(({ listedValue }) => listedValue)
    await expect.poll(values).toEqual([delta === 5 ? 5 : 7])
  }
})

it('pauseMs: pauses for a second, or longer after a long copy', () => {
  expect([0, 50, 100, 10_000].map(pauseMs)).toEqual([1000, 1000, 1900, 5000])
})

it('withReaders: has nothing to copy when the copy before took all, while the next one waited', async () => {
  expect(await withReaders(openTestDatabase(await freshDatabase()), [])).toEqual([])
})

it('leaderboard sync: finds what a process that was killed had not listed yet, and what was changed by hand', async () => {
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

it('leaderboard sync: lets all callers share one sync, and lists what is stored when the sync fails', async () => {
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

it('leaderboard sync: lists values as they were last, whatever the order in which two processes copy them', async () => {
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

const PAGE = { order: 'VALUE_DESC', limit: 10, fromEnd: false } as const
const MINUTE_MS = 60_000

/** A process that writes the counter c1, and one that reads it, with clocks that stand still. */
async function writerAndReader() {
  const target = await freshDatabase()
  const checks = collectStatements('from leaderboard_read')
  let now = Date.UTC(2026, 10, 26)
  const clock = { now: () => new Date(now) }
  const [writer, reader] = [openTestNth(target, clock), openTestNth(target, clock)]
  const stored = async () =>
    (await query(target, 'select value from leaderboard order by counter_id')).map(({ value }) => value)
  const add = (name: string) => writer.counters.incrementBy({ namespace: 'n', name }, 1)
  await add('c1')
  // The first copy of a process has everything.
  await expect.poll(stored).toEqual([1])
  return {
    target,
    writer,
    add,
    stored,
    /** Waits until the writer has looked twice whether anybody reads what it has changed: so once after this call. */
    async looked() {
      const before = checks.length
      await expect.poll(() => checks.length).toBeGreaterThan(before + 1)
    },
    wait(ms: number) {
      now += ms
    },
    listed: async () => (await reader.leaderboard.list('n', PAGE)).map(({ listedValue }) => listedValue),
    placeOfC1: () =>
      reader.leaderboard.place({ namespace: 'n', name: 'c1', periodKey: 0, lowestFirst: false }),
  }
}

it('leaderboard sync: keeps a newer state that a process of an earlier version copies without its lock', async () => {
  const target = await freshDatabase()
  const newer = 'update leaderboard set value = 7, revision = revision + 2'
  let copies = 0
  const proxied = await startProxy(target, async (statement) => {
    if (statement.includes('insert into leaderboard (') && ++copies === 2) await query(target, newer)
    return 'passes' as const
  })
  const { counters, leaderboard } = openTestNth(proxied)
  for (const listedValue of [1, 7]) {
    await counters.incrementBy({ namespace: 'n', name: 'c' }, 1)
    expect(await leaderboard.list('n', PAGE)).toMatchObject([{ listedValue }])
  }
})

it('leaderboard sync: copies once a minute what is changed where nobody reads', {
  tags: 'slow',
}, async () => {
  const { add, stored, looked, wait } = await writerAndReader()
  await add('c1')
  await looked()
  expect(await stored()).toEqual([1])
  wait(MINUTE_MS)
  await expect.poll(stored).toEqual([2])
})

it('leaderboard sync: shows at the first read all that others have changed, and soon what they change afterwards', async () => {
  const { writer, add, stored, looked, listed, placeOfC1 } = await writerAndReader()
  for (const name of ['c1', 'c2', 'c3', 'c3', 'c3']) await add(name)
  await looked()
  expect(await stored()).toEqual([1])
  expect(await listed()).toEqual([3, 2, 1])
  await writer.counters.delete({ namespace: 'n', name: 'c3' })
  await expect.poll(placeOfC1).toBe(1)
  await add('c1')
  await expect.poll(listed).toEqual([3, 1])
})

it('leaderboard sync: shows at the first read after a pause what a killed process had not copied, and places without what it deleted', {
  tags: 'slow',
}, async () => {
  const { target, add, stored, looked, listed, placeOfC1, wait } = await writerAndReader()
  for (const name of ['c2', 'c2', 'c3']) await add(name)
  expect(await listed()).toEqual([2, 1, 1])
  wait(11 * MINUTE_MS)
  await add('c1')
  await expect.poll(stored).toEqual([2, 2, 1])
  await query(
    target,
    'update leaderboard_read set read_at = read_at - interval 11 minute',
    'update counter_value set value = 5, revision = revision + 1 where counter_id = 3',
    'delete from counter_value where counter_id = 2',
    'delete from counter where id = 2',
  )
  await add('c1')
  await looked()
  expect(await stored()).toEqual([2, 2, 1])
  expect(await placeOfC1()).toBe(2)
  expect(await listed()).toEqual([5, 3])
})

it('leaderboard sync: copies where nobody reads when more than 10 000 counters wait, and at the end', {
  tags: 'slow',
}, async () => {
  const { writer, add, stored, looked } = await writerAndReader()
  for (const batch of upTo(11)) {
    const changes = upTo(1000).map((index) => ({ name: `d${batch} ${index}`, delta: 1 }))
    await writer.counters.incrementMany('n', changes)
  }
  await expect.poll(async () => (await stored()).length).toBeGreaterThan(10_000)
  await add('c1')
  await looked()
  expect((await stored())[0]).toBe(1)
  await writer.close()
  const values = await stored()
  expect([values[0], values.length]).toEqual([2, 11_001])
})

it('leaderboard sync: takes a copy that is younger than a second, rather than to start one', async () => {
  const target = await freshDatabase()
  let now = Date.UTC(2026, 10, 26)
  const { counters, leaderboard } = openTestNth(target, { now: () => new Date(now), leaderboardAgeMs: 1000 })
  let value = 0
  const listed = async () => (await leaderboard.list('n', PAGE))[0]?.listedValue
  const isOlder = async () => {
    await counters.incrementBy({ namespace: 'n', name: 'c' }, 1)
    value++
    return (await listed()) !== value
  }
  // The first read copies. A copy of the background may come between a change and a read, but not often.
  expect(await isOlder()).toBe(false)
  await expect.poll(isOlder, { timeout: 20_000 }).toBe(true)
  now += 1000
  expect(await listed()).toBe(value)
})
