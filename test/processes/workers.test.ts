// @module-tag slow
import { readdir } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { inParallel, sorted, upTo } from '../support/client/client.ts'
import { dataDirectory, startNth } from '../support/server/nthProcess.ts'
import { connectionsAt, databaseOf, isAlive, workersOf } from '../support/server/processes.ts'
import {
  increment,
  openConnection,
  openRequest,
  reach,
  startTwo,
  untilRefused,
} from '../support/server/workers.ts'
import { soon } from '../support/soon.ts'

it('WORKERS: shares one port among workers, each of which serves, and issues exact numbers', {
  tags: 'quick',
}, async () => {
  const nth = await startTwo()
  expect(nth.output()).toContain('Workers   2 processes')
  expect(nth.output().match(/Nth is running/g)).toHaveLength(1)
  const numbers = await inParallel(32, 500, () => increment(nth))
  expect(sorted(numbers)).toEqual(upTo(500))
  const workers = await workersOf(nth)
  expect(workers).toHaveLength(2)
  for (const count of await connectionsAt(nth.url, workers)) expect(count).toBeGreaterThan(8)
})

it('WORKERS: replaces a worker that is killed under load, while the others serve on', async () => {
  const nth = await startTwo()
  const [victim = 0, other = 0] = await workersOf(nth)
  const answered: number[] = []
  let lost = 0
  let isOver = false
  const callers = upTo(16).map(async () => {
    while (!isOver) {
      await increment(nth).then(
        (value) => answered.push(value),
        () => lost++,
      )
    }
  })
  await expect.poll(() => answered.length > 100).toBe(true)
  process.kill(victim, 'SIGKILL')
  await nth.printed(`Worker ${victim} ended (SIGKILL). A replacement starts`)
  await expect.poll(() => workersOf(nth)).toEqual([other, expect.any(Number)])
  // The new one is assigned connections as well.
  await expect
    .poll(async () => {
      await openConnection(nth)
      return Math.min(...(await connectionsAt(nth.url, await workersOf(nth))))
    })
    .toBeGreaterThan(0)
  isOver = true
  await Promise.all(callers)
  const { value } = (await nth.ask('{ counter(name: "c") { value } }')).counter
  expect(new Set(answered).size).toBe(answered.length)
  expect(value).toBeGreaterThanOrEqual(answered.length)
  expect(value).toBeLessThanOrEqual(answered.length + lost)
})

it('WORKERS: leaves no caller waiting whose connection was on its way to a worker that froze and died', async () => {
  const nth = await startTwo()
  const [victim = 0] = await workersOf(nth)
  process.kill(victim, 'SIGSTOP')
  let ended = 0
  const calls = upTo(6).map(() => reach(nth).finally(() => ended++))
  await expect.poll(() => ended).toBe(5)
  process.kill(victim, 'SIGKILL')
  const outcomes = await Promise.all(calls)
  expect(outcomes.toSorted()).toEqual([...Array(5).fill('answered'), 'refused'])
  // Nothing of it is left that would keep the port open.
  nth.child.kill('SIGTERM')
  expect(await nth.exited).toBe(0)
})

it('WORKERS: listens on its port again also when all workers end at once', async () => {
  const nth = await startTwo()
  for (const pid of await workersOf(nth)) process.kill(pid, 'SIGKILL')
  // Many, so that one is assigned to a worker that does not yet know that it listens.
  await inParallel(32, 32, () => expect.poll(() => reach(nth)).toBe('answered'))
  expect(await increment(nth)).toBe(1)
})

it('WORKERS: waits longer each time before it replaces workers that do not live', async () => {
  const nth = await startTwo()
  /** Kills the youngest worker, and returns how long its replacement is put off. */
  const killYoungest = async (): Promise<number> => {
    const [, youngest = 0] = await workersOf(nth)
    const killedAt = performance.now()
    process.kill(youngest, 'SIGKILL')
    const pause = new RegExp(`Worker ${youngest} ended .SIGKILL.. A replacement starts (now|in (\\d+) ms)`)
    await expect.poll(nth.output).toMatch(pause)
    const [, , pauseMs = 0] = pause.exec(nth.output()) ?? []
    await expect.poll(async () => (await workersOf(nth)).length).toBe(2)
    // A timer may be a millisecond early.
    expect(performance.now() - killedAt).toBeGreaterThan(Number(pauseMs) - 5)
    return Number(pauseMs)
  }
  // Where the start takes long, the first one has lived so long that it is replaced at once.
  const first = await killYoungest()
  const second = await killYoungest()
  expect([first, second]).toEqual(first === 0 ? [0, 200] : [200, 400])
  expect(await killYoungest()).toBe(2 * second)
  expect(await killYoungest()).toBe(4 * second)
})

it('WORKERS: answers all it has accepted when a Ctrl-C reaches every process, and leaves none, nor a database', async () => {
  const directory = await dataDirectory()
  const nth = await startNth({ NTH_DATA_DIR: directory, WORKERS: '2' })
  const workers = await workersOf(nth)
  const database = await databaseOf(directory)
  const finish = await soon('requests are taken on', Promise.all(upTo(16).map(() => openRequest(nth))))
  for (const count of await connectionsAt(nth.url, workers)) expect(count).toBeGreaterThan(0)
  const comers = upTo(16).map(() => untilRefused(nth))
  for (const pid of [...workers, nth.child.pid ?? 0]) process.kill(pid, 'SIGINT')
  // As npm hands it on.
  nth.child.kill('SIGINT')
  // Each of them is answered or refused at once, though the workers wait for the others.
  await soon('comers are refused', Promise.all(comers))
  const numbers = await soon('requests are answered', Promise.all(finish.map((send) => send())))
  expect(sorted(numbers)).toEqual(upTo(16))
  expect(await soon('it ends', nth.exited)).toBe(0)
  expect(nth.output()).not.toContain('ended')
  expect(await Promise.all([...workers, database].map(isAlive))).toEqual([false, false, false])
  expect(await readdir(directory)).not.toContain('nth.lock')
})

it('WORKERS: ends at once, workers too, on a second signal', async () => {
  const nth = await startTwo()
  const workers = await workersOf(nth)
  await openRequest(nth)
  let code: unknown
  nth.exited.then((value) => {
    code = value
  })
  const terminate = () => {
    nth.child.kill('SIGTERM')
    return code
  }
  await expect.poll(terminate, { interval: 100 }).toBe(1)
  expect(await Promise.all(workers.map(isAlive))).toEqual([false, false])
})

it('WORKERS: leaves no process when the one that holds the workers is killed', async () => {
  const directory = await dataDirectory()
  const nth = await startNth({ NTH_DATA_DIR: directory, WORKERS: '2' })
  await increment(nth)
  const pids = [...(await workersOf(nth)), await databaseOf(directory)]
  nth.child.kill('SIGKILL')
  await expect.poll(() => Promise.all(pids.map(isAlive))).toEqual([false, false, false])
})
