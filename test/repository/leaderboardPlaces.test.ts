// @module-tag random
import { copyFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, it } from 'vitest'
import { migrate } from '../../src/repository/migrate.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { divide, fill, runLeaderboardJobs, wrongBlocks } from '../support/database/leaderboards.ts'
import { startProxy } from '../support/database/proxy.ts'
import { openTestNth } from '../support/server/nth.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'

const MIGRATIONS = join(import.meta.dirname, '../../schema/migrations')

it('leaderboard blocks: have a thousand rows, and never split equal values, while two processes change them', async () => {
  const target = await freshDatabase({ isReused: false })
  const values = upTo(9000).map((id) => (id <= 3000 ? 7 : id))
  await fill(target, [values])
  const processes = [openTestNth(target), openTestNth(target)]
  const [{ leaderboard, counters } = openTestNth(target)] = processes
  const placeOfC = (id: number, lowestFirst = false) =>
    leaderboard.place({ namespace: 'n1', name: `c${id}`, periodKey: 0, lowestFirst })
  expect(await placeOfC(1)).toBe(6001)
  expect(await placeOfC(1, true)).toBe(1)
  await runLeaderboardJobs(target)
  expect([await placeOfC(9000), await placeOfC(3001), await placeOfC(1)]).toEqual([1, 6000, 6001])
  expect([await placeOfC(9000, true), await placeOfC(3001, true), await placeOfC(1, true)]).toEqual([
    9000, 3001, 1,
  ])
  const sizes = async () =>
    (await query(target, 'select counters from leaderboard_block order by from_value')).map(
      (row) => row.counters,
    )
  expect(await sizes()).toEqual([0, 3000, 1000, 1000, 1000, 1000, 1000, 1000])
  // Most of them move to the top, where one block grows.
  const raise = async (from: number, process: number) => {
    for (let id = from; id <= 9000; id += 1000) {
      const changes = upTo(400).map((index) => ({
        name: `c${Math.min(id + index, 9000)}`,
        delta: 9000 + process,
      }))
      await processes[process]?.counters.incrementMany('n1', changes)
      await processes[process]?.leaderboard.list('n1', {
        order: 'VALUE_DESC',
        limit: 1,
        fromEnd: false,
      })
    }
  }
  await Promise.all([
    raise(1, 0),
    raise(201, 1),
    runLeaderboardJobs(target),
    counters.delete({ namespace: 'n1', name: 'c9' }),
  ])
  await Promise.all(
    processes.map(({ leaderboard }) =>
      leaderboard.list('n1', { order: 'VALUE_DESC', limit: 1, fromEnd: false }),
    ),
  )
  expect(await wrongBlocks(target)).toEqual([])
  await runLeaderboardJobs(target)
  expect(await wrongBlocks(target)).toEqual([])
  const current = await query(
    target,
    'select cast(c.name as char) as name, v.value from counter c join counter_value v on v.counter_id = c.id',
  )
  const sorted = current.map(({ value }) => Number(value))
  for (const { name, value } of current.filter((_, index) => index % 500 === 0)) {
    const place = await leaderboard.place({ namespace: 'n1', name, periodKey: 0, lowestFirst: false })
    expect(place).toBe(1 + sorted.filter((other) => other > value).length)
  }
  for (const { from_value, counters } of await query(target, 'select * from leaderboard_block'))
    if (counters > 2000)
      expect(sorted.filter((value) => value === 7).length, `block from ${from_value}`).toBeGreaterThan(1000)
})

it('neighbors: are those of one instant, also if one moves meanwhile', async () => {
  const target = await freshDatabase()
  let lists = 0
  const proxied = await startProxy(target, async (statement): Promise<'passes'> => {
    if (statement.includes('order by r.value') && ++lists === 1)
      await query(target, 'update leaderboard set value = 4 where counter_id = 2')
    return 'passes'
  })
  await fill(target, [[9, 7, 5, 3, 1]])
  const { leaderboard } = openTestNth(proxied)
  const key = { namespace: 'n1', name: 'c3', periodKey: 0, lowestFirst: false }
  const neighbors = await leaderboard.neighbors(key, 1, 1)
  expect(neighbors?.map(({ name }) => name)).toEqual(['c2', 'c3', 'c4'])
  expect(lists).toBe(1)
})

it('leaderboard blocks: what a process of an earlier version has changed without counting is counted anew', async () => {
  const target = await freshDatabase()
  await fill(target, [upTo(30)])
  await divide(target, [10, 20])
  await query(
    target,
    'update leaderboard set value = 100 where counter_id <= 10',
    'delete from leaderboard where counter_id = 20',
    'update leaderboard_block set counters = -4',
  )
  await runLeaderboardJobs(target)
  expect(await wrongBlocks(target)).toEqual([])
})

it('place: is there in a database of the version before, whose migration may be interrupted', async () => {
  const target = await freshDatabase({ migrated: false })
  const folder = await temporaryDirectory()
  const files = (await readdir(MIGRATIONS)).filter((name) => name < '0007')
  for (const name of files) await copyFile(join(MIGRATIONS, name), join(folder, name))
  await migrate(target, pathToFileURL(`${folder}/`))
  await fill(target, [[5, 9, 5]])
  await migrate(target)
  await query(target, "delete from expansion where name = '0007_boards.sql'")
  expect(await migrate(target)).toEqual(['0007_boards.sql'])
  const { leaderboard } = openTestNth(target)
  const places = () =>
    Promise.all(
      ['c1', 'c2', 'c3'].map((name) =>
        leaderboard.place({ namespace: 'n1', name, periodKey: 0, lowestFirst: false }),
      ),
    )
  expect(await places()).toEqual([2, 1, 2])
})
