import v8 from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import { groupBy } from '../../src/mysql/sql.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase } from '../support/database/database.ts'
import { hold } from '../support/database/hold.ts'
import { openTestNth } from '../support/server/nth.ts'

const key = (name: string) => ({ namespace: 'n', name })

const collectGarbage: () => void = (() => {
  v8.setFlagsFromString('--expose-gc')
  return runInNewContext('gc')
})()

it('maxPending: refuses at once what is more than may wait, keeps its memory, and is at full speed afterwards', async () => {
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

it('maxPending: counts each change of a cart as one that waits', async () => {
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

it('maxPending: keeps room for whoever has less than an equal share of what waits, though as much waits as may', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target, { maxPending: 100 })
  await counters.incrementBy(key('c'), 0)
  const holder = await hold(target, 'c')
  const incrementAt = (address: string) => {
    const owner = { identity: 'page', address, hasLeft: false }
    return counters.incrementBy(key('c'), 1, { owner }).then(
      () => `${address}: counted`,
      ({ code }) => `${address}: ${code}`,
    )
  }
  const answers = [upTo(101).map(() => incrementAt('greedy')), upTo(51).map(() => incrementAt('honest'))]
  const third = incrementAt('third')
  await holder.end()
  const counts = groupBy(await Promise.all([...answers.flat(), third]), String)
  expect([...counts].map(([answer, alike]) => [answer, alike.length])).toEqual([
    ['greedy: counted', 100],
    ['greedy: UNAVAILABLE', 1],
    ['honest: counted', 50],
    ['honest: UNAVAILABLE', 1],
    ['third: counted', 1],
  ])
  expect(await incrementAt('greedy')).toBe('greedy: counted')
})

it('the deadline: does not keep what has expired, however long an outage lasts', {
  tags: 'slow',
}, async () => {
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
