import v8 from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import { migrate } from '../../src/mysql/startup/migrate.ts'
import { inParallel, upTo } from '../support/client.ts'
import { freshDatabase } from '../support/database.ts'
import { hold } from '../support/hold.ts'
import { startLoad } from '../support/load.ts'
import { AMPLE_MS, openTestNth } from '../support/nth.ts'
import { dataDirectory } from '../support/nthProcess.ts'
import { privateServer, signalServer } from '../support/privateServer.ts'
import { soon } from '../support/soon.ts'

const key = (name: string) => ({ namespace: 'n', name })

it('goes on with all others while somebody holds the row of one counter', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target, { timeoutMs: AMPLE_MS })
  const others = upTo(20).map((index) => key(`c${index}`))
  for (const each of [key('held'), ...others]) await counters.incrementBy(each, 1)
  const holder = await hold(target, 'held')
  let isPending = true
  const held = Promise.all(upTo(5).map(() => counters.incrementBy(key('held'), 1))).finally(() => {
    isPending = false
  })
  held.catch(() => undefined)
  for (const _ of upTo(100)) {
    await Promise.all(others.map((other) => counters.incrementBy(other, 1)))
    // A newcomer for the held row does not hold them up again.
    counters.incrementBy(key('held'), 1).catch(() => undefined)
  }
  // If each round waited for the lock, a second at a time, the deadline would have been over before.
  expect(isPending).toBe(true)
  await holder.end()
  expect((await held).map(({ value }) => value)).toEqual([2, 3, 4, 5, 6])
  for (const other of others) expect((await counters.read(other)).value).toBe(101)
})

it('counts nothing of what it refused, and everything else, while a row is held and let go', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target, { timeoutMs: 1500 })
  await counters.incrementBy(key('held'), 0)
  const load = startLoad(8, async () => (await counters.incrementBy(key('held'), 1)).value)
  for (const _ of upTo(2)) {
    const holder = await hold(target, 'held')
    const refused = load.refused.length
    await expect.poll(() => load.refused.length).toBeGreaterThan(refused)
    await holder.end()
    const answered = load.answered.length
    await expect.poll(() => load.answered.length).toBeGreaterThan(answered)
  }
  await load.end()
  // A deadline can come between a COMMIT and its answer.
  const doubtful = load.refused.filter((code) => code !== 'UNAVAILABLE')
  expect(new Set(['OUTCOME_UNKNOWN', ...doubtful])).toEqual(new Set(['OUTCOME_UNKNOWN']))
  expect(load.refused.length).toBeGreaterThan(doubtful.length)
  expect(new Set(load.answered).size).toBe(load.answered.length)
  const { value } = await counters.read(key('held'))
  expect(value).toBeGreaterThanOrEqual(load.answered.length)
  expect(value).toBeLessThanOrEqual(load.answered.length + doubtful.length)
})

it('tells everybody the truth in time while the database is frozen for longer than the deadline', async () => {
  const directory = await dataDirectory()
  const { target } = await privateServer(directory)
  await migrate(target)
  const TIMEOUT_MS = 2000
  const { counters } = openTestNth(target, { timeoutMs: TIMEOUT_MS })
  // Each call has a counter of its own, which shows afterwards what became of it.
  const keys = upTo(2000).map((index) => key(`c${index}`))
  await inParallel(20, keys.length, (index) => counters.incrementBy(keys[index] ?? key(''), 0))
  const told = new Map<string, string | number>()
  let next = 0
  const callers = upTo(64).map(async () => {
    for (let each = keys[next++]; each; each = keys[next++]) {
      const answer = counters.incrementBy(each, 1).catch((error) => error)
      const { value, code } = await soon('an answer', answer, TIMEOUT_MS + 1000)
      told.set(each.name, code ?? value)
    }
  })
  await expect.poll(() => told.size, { interval: 1 }).toBeGreaterThan(200)
  await signalServer(directory, 'SIGSTOP')
  const frozen = told.size
  // Two rounds of callers have met the frozen database.
  await expect.poll(() => told.size).toBeGreaterThan(frozen + 128)
  await signalServer(directory, 'SIGCONT')
  await Promise.all(callers)
  const refused = [...told].filter(([, answer]) => answer !== 1)
  expect(refused.length).toBeGreaterThanOrEqual(128)
  const states = await Promise.all([...told.keys()].map((name) => counters.read(key(name))))
  for (const [index, [name, answer]] of [...told].entries()) {
    const value = states[index]?.value
    const truth = answer === 'OUTCOME_UNKNOWN' ? [0, 1] : [answer === 1 ? 1 : 0]
    expect([name, answer, truth]).toEqual([name, answer, expect.arrayContaining([value])])
  }
})

const collectGarbage: () => void = (() => {
  v8.setFlagsFromString('--expose-gc')
  return runInNewContext('gc')
})()

it('refuses at once what is more than may wait, keeps its memory, and is at full speed afterwards', async () => {
  const MAX_PENDING = 100
  const target = await freshDatabase()
  const { counters } = openTestNth(target, { maxPending: MAX_PENDING })
  await counters.incrementBy(key('c'), 0)
  const holder = await hold(target, 'c')
  const waiting = upTo(MAX_PENDING).map(() => counters.incrementBy(key('c'), 1))
  const refuse = () => counters.incrementBy(key('c'), 1).then(String, ({ code }) => code)
  const codes = await Promise.all(upTo(9 * MAX_PENDING).map(refuse))
  expect(new Set(codes)).toEqual(new Set(['UNAVAILABLE']))
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  for (const _ of upTo(100_000)) await refuse()
  collectGarbage()
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(5_000_000)
  await holder.end()
  const values = (await Promise.all(waiting)).map(({ value }) => value)
  expect(values).toEqual(upTo(MAX_PENDING))
  const rest = await Promise.all(upTo(MAX_PENDING).map(() => counters.incrementBy(key('c'), 1)))
  expect(rest.map(({ value }) => value)).toEqual(upTo(2 * MAX_PENDING).slice(MAX_PENDING))
})

it('counts each change of a cart as one that waits', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target, { maxPending: 100 })
  const cart = upTo(99).map((index) => ({ name: `c${index}`, delta: 1 }))
  await counters.incrementMany('n', cart)
  const holder = await hold(target, 'c1')
  // The one that finds room is taken whole.
  const waiting = [counters.incrementMany('n', cart), counters.incrementMany('n', cart)]
  await expect(counters.incrementBy(key('c'), 1)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  await expect(counters.incrementMany('n', cart)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  await holder.end()
  for (const answers of await Promise.all(waiting)) expect(answers).toHaveLength(99)
  expect(await counters.incrementBy(key('c'), 1)).toMatchObject({ value: 1 })
})

it('does not keep what has expired, however long an outage lasts', async () => {
  const target = await freshDatabase()
  await openTestNth(target).counters.incrementBy(key('c'), 0)
  const { counters } = openTestNth(target, { timeoutMs: 100, maxPending: 5000 })
  const holder = await hold(target, 'c')
  const expire = () => Promise.allSettled(upTo(5000).map(() => counters.incrementBy(key('c'), 1)))
  await expire()
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  for (const _ of upTo(20)) await expire()
  collectGarbage()
  // Of 100 000 calls of about a kilobyte each, the newest may still be there.
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(40_000_000)
  await holder.end()
})
