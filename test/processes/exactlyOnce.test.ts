// @module-tag random
import { createConnection } from 'mysql2/promise'
import { expect, it, onTestFinished } from 'vitest'
import type { Target } from '../../src/mysql/settings.ts'
import { migrate } from '../../src/repository/migrate.ts'
import type { Nth } from '../../src/repository/nth.ts'
import type { CounterKey } from '../../src/rules/counter.ts'
import { claimOf } from '../../src/rules/idempotency.ts'
import { inParallel, sorted, upTo } from '../support/client/client.ts'
import { type Load, startLoad } from '../support/client/load.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { privateServer, signalServer } from '../support/database/privateServer.ts'
import { startProxy } from '../support/database/proxy.ts'
import { sums } from '../support/database/totals.ts'
import { racingClock } from '../support/model/periods.ts'
import { createRandom, runSize } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'
import { dataDirectory } from '../support/server/nthProcess.ts'

const CALLERS = 64
const key: CounterKey = { namespace: 'n', name: 'hot' }

function hammer({ counters }: Nth): Load {
  return startLoad(CALLERS, async () => (await counters.incrementBy(key, 1)).value)
}

/**
 * Nobody saw an error, every number from 1 to the value of the row was returned once, and the totals of all hours, of
 * all days and of all months are that value.
 */
async function expectExact({ counters }: Nth, target: Target, { answered, refused }: Load): Promise<void> {
  expect(refused).toEqual([])
  expect(answered.toSorted((a, b) => a - b)).toEqual(upTo(answered.length))
  expect((await counters.read(key)).value).toBe(answered.length)
  expect(await sums(target)).toEqual(Array(4).fill(answered.length))
}

/** The same by callers with a key for each call, on a counter with a bound that is far away. */
async function hammerWithKeys({ counters }: Nth): Promise<Load> {
  await counters.define(key, { maxValue: 1_000_000 })
  let calls = 0
  return startLoad(
    CALLERS,
    async () => (await counters.incrementBy(key, 1, { claim: claimOf('n', `k${calls++}`, []) })).value,
  )
}

it.each([
  ['', runSize(1, 5), hammer],
  [', with keys and a bound', runSize(1, 3), hammerWithKeys],
])(
  'increment: counts exactly, without an error for anybody, while its database is killed again and again, and hours begin%s',
  async (_, kills, startHammer) => {
    const directory = await dataDirectory()
    let restarts = 0
    const { target } = await privateServer(directory, (line) => {
      if (line.includes('restarting it')) restarts++
    })
    await migrate(target)
    const nth = openTestNth(target, { now: racingClock() })
    const load = await startHammer(nth)
    const random = createRandom()
    for (const time of upTo(kills)) {
      await load.afterMore(1 + random.below(3000))
      await signalServer(directory, 'SIGKILL')
      await expect.poll(() => restarts).toBe(time)
    }
    await load.afterMore(1000)
    await load.end()
    await expectExact(nth, target, load)
  },
)

it('increment: counts exactly, without an error for anybody, while its connections are cut again and again, and hours begin', async () => {
  const CUTS = runSize(20, 40)
  const random = createRandom()
  let cuts = 0
  let sinceCut = 0
  let next = 0
  const database = await freshDatabase()
  const target = await startProxy(database, (statement) => {
    // Of every three, two fall on COMMIT: before it, or between it and its answer.
    const isDue = ++sinceCut > next && (cuts % 3 === 0 || /commit$/.test(statement))
    if (cuts >= CUTS || !isDue) return 'passes'
    cuts++
    sinceCut = 0
    next = random.below(20)
    return random.fraction() < 0.5 ? 'is cut off' : 'stays unanswered'
  })
  const nth = openTestNth(target, { now: racingClock() })
  const load = hammer(nth)
  await expect.poll(() => cuts).toBe(CUTS)
  await load.afterMore(1000)
  await load.end()
  await expectExact(nth, target, load)
})

it('increment: counts exactly, without an error for anybody, while its connections are killed again and again', async () => {
  const target = await freshDatabase()
  const nth = openTestNth(target)
  const load = hammer(nth)
  const killer = await createConnection(target)
  onTestFinished(() => killer.end())
  const random = createRandom()
  const KILLS = runSize(10, 20)
  let kills = 0
  while (kills < KILLS) {
    await load.afterMore(1 + random.below(500))
    // The one that flushes was busy within the last second.
    const ids = await query(
      target,
      `select id from information_schema.processlist
        where db = '${target.database}' and id not in (connection_id(), ${killer.threadId}) and time <= 1`,
    )
    for (const { id, ID = id } of ids) {
      const isThere = await killer.query(`kill ${ID}`).then(
        () => true,
        ({ errno }) => errno !== 1094,
      )
      if (isThere) kills++
    }
  }
  await load.afterMore(1000)
  await load.end()
  await expectExact(nth, target, load)
})

it('countOnce: counts each of 200 subjects once, with 50 calls each, while the database of two processes is killed', {
  tags: 'slow',
}, async () => {
  const SUBJECTS = 200
  const directory = await dataDirectory()
  const { target } = await privateServer(directory)
  await migrate(target)
  const processes = [openTestNth(target), openTestNth(target)]
  const kills = new Set([2000, 6000])
  const numbers = new Map<string, Set<number>>(upTo(SUBJECTS).map((n) => [`subject ${n}`, new Set()]))
  await inParallel(400, SUBJECTS * 50, async (index) => {
    if (kills.has(index)) await signalServer(directory, 'SIGKILL')
    const subject = `subject ${(index % SUBJECTS) + 1}`
    numbers.get(subject)?.add((await (processes[index % 2] as Nth).counters.countOnce(key, subject)).value)
  })
  // Each subject has one number, and together they have the first ones.
  expect(sorted([...numbers.values()].flatMap((own) => [...own]))).toEqual(upTo(SUBJECTS))
  expect(await processes[0]?.counters.read(key)).toMatchObject({ value: SUBJECTS })
})
