import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { createServer } from 'node:net'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, it, onTestFinished } from 'vitest'
import { readConfig } from '../src/config.ts'
import { pauseBeforeNext } from '../src/workers.ts'
import { inParallel, sorted, upTo } from './support/client.ts'
import { freshDatabase, urlOf } from './support/database.ts'
import {
  dataDirectory,
  type NthProcess,
  spawnNth,
  startNth,
  temporaryDirectory,
} from './support/nthProcess.ts'
import { connectionsAt, databaseOf, isAlive, workersOf } from './support/processes.ts'

const INCREMENT = 'mutation { increment(name: "c") { value } }'
const PATIENCE = { timeout: 20_000 }

async function startTwo(): Promise<NthProcess> {
  return startNth({ DATABASE_URL: urlOf(await freshDatabase()), WORKERS: '2' })
}

async function increment(nth: NthProcess): Promise<number> {
  return (await nth.ask(INCREMENT)).increment.value
}

/**
 * Opens a request on a connection of its own, which a worker has taken on when this returns. Called, it sends
 * the rest, and returns the number that it is answered with.
 */
async function openRequest(nth: NthProcess): Promise<() => Promise<number>> {
  const headers = { 'content-type': 'application/json', expect: '100-continue' }
  const opened = request(`${nth.url}/graphql`, { method: 'POST', headers, agent: false })
  opened.flushHeaders()
  const answer: Promise<IncomingMessage[]> = once(opened, 'response')
  answer.catch(() => undefined)
  await once(opened, 'continue')
  return async () => {
    opened.end(JSON.stringify({ query: INCREMENT }))
    const [response] = await answer
    return JSON.parse(response ? await text(response) : '').data.increment.value
  }
}

function reach(nth: NthProcess): Promise<string> {
  return fetch(nth.url, { headers: { connection: 'close' } }).then(
    () => 'answered',
    () => 'refused',
  )
}

/** Calls without a pause until nobody takes the call any more. */
async function untilRefused(nth: NthProcess): Promise<void> {
  while ((await reach(nth)) !== 'refused');
}

it('shares one port among workers, each of which serves, and hands out exact numbers', async () => {
  const nth = await startTwo()
  expect(nth.output()).toContain('Workers   2 processes')
  expect(nth.output().match(/Nth is running/g)).toHaveLength(1)
  const numbers = await inParallel(32, 2_000, () => increment(nth))
  expect(sorted(numbers)).toEqual(upTo(2_000))
  const workers = await workersOf(nth)
  expect(workers).toHaveLength(2)
  for (const count of await connectionsAt(nth.url, workers)) expect(count).toBeGreaterThan(8)
})

it('replaces a worker that is killed under load, while the others serve on', async () => {
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
  await expect.poll(() => answered.length > 100, PATIENCE).toBe(true)
  process.kill(victim, 'SIGKILL')
  await nth.printed(`Worker ${victim} ended (SIGKILL); another takes its place`)
  await expect.poll(() => workersOf(nth), PATIENCE).toEqual([other, expect.any(Number)])
  // The new one serves when callers' connections have come to it.
  await expect
    .poll(async () => {
      await reach(nth)
      return Math.min(...(await connectionsAt(nth.url, await workersOf(nth))))
    }, PATIENCE)
    .toBeGreaterThan(0)
  isOver = true
  await Promise.all(callers)
  const { value } = (await nth.ask('{ counter(name: "c") { value } }')).counter
  expect(new Set(answered).size).toBe(answered.length)
  expect(value).toBeGreaterThanOrEqual(answered.length)
  expect(value).toBeLessThanOrEqual(answered.length + lost)
})

it('leaves no caller waiting whose connection was on its way to a worker that froze and died', async () => {
  const nth = await startTwo()
  const [victim = 0] = await workersOf(nth)
  process.kill(victim, 'SIGSTOP')
  let ended = 0
  const calls = upTo(6).map(() => reach(nth).finally(() => ended++))
  await expect.poll(() => ended, PATIENCE).toBe(5)
  process.kill(victim, 'SIGKILL')
  const outcomes = await Promise.all(calls)
  expect(outcomes.toSorted()).toEqual([...Array(5).fill('answered'), 'refused'])
})

it('is back at its port also when all workers end at once', async () => {
  const nth = await startTwo()
  for (const pid of await workersOf(nth)) process.kill(pid, 'SIGKILL')
  await expect.poll(() => increment(nth).catch(() => undefined), PATIENCE).toBe(1)
})

it('answers all it has accepted when a Ctrl-C reaches every process, and leaves none, nor a database', async () => {
  const directory = await dataDirectory()
  const nth = await startNth({ NTH_DATA_DIR: directory, WORKERS: '2' })
  const workers = await workersOf(nth)
  const database = await databaseOf(directory)
  const finish = await Promise.all(upTo(16).map(() => openRequest(nth)))
  for (const count of await connectionsAt(nth.url, workers)) expect(count).toBeGreaterThan(0)
  const comers = upTo(16).map(() => untilRefused(nth))
  for (const pid of [...workers, nth.child.pid ?? 0]) process.kill(pid, 'SIGINT')
  // As npm hands it on.
  nth.child.kill('SIGINT')
  // Each of them is answered or refused at once, though the workers wait for the others.
  await Promise.all(comers)
  const numbers = await Promise.all(finish.map((send) => send()))
  expect(sorted(numbers)).toEqual(upTo(16))
  expect(await nth.exited).toBe(0)
  expect(nth.output()).not.toContain('ended')
  expect(await Promise.all([...workers, database].map(isAlive))).toEqual([false, false, false])
  expect(await readdir(directory)).not.toContain('nth.lock')
})

it('ends at once, workers too, when it is told again', async () => {
  const nth = await startTwo()
  const workers = await workersOf(nth)
  await openRequest(nth)
  let code: unknown
  nth.exited.then((value) => {
    code = value
  })
  const tell = () => {
    nth.child.kill('SIGTERM')
    return code
  }
  await expect.poll(tell, { timeout: 5_000, interval: 100 }).toBe(1)
  expect(await Promise.all(workers.map(isAlive))).toEqual([false, false])
})

it('leaves no process when the one that holds the workers is killed', async () => {
  const directory = await dataDirectory()
  const nth = await startNth({ NTH_DATA_DIR: directory, WORKERS: '2' })
  await increment(nth)
  const pids = [...(await workersOf(nth)), await databaseOf(directory)]
  nth.child.kill('SIGKILL')
  await expect.poll(() => Promise.all(pids.map(isAlive)), PATIENCE).toEqual([false, false, false])
})

it('waits longer each time before it replaces workers that do not live', async () => {
  const nth = await startTwo()
  for (const [index, pauseMs] of [200, 400, 800].entries()) {
    await expect.poll(async () => (await workersOf(nth)).length, PATIENCE).toBe(2)
    const [, youngest = 0] = await workersOf(nth)
    process.kill(youngest, 'SIGKILL')
    await nth.printed(`Worker ${youngest} ended (SIGKILL); another takes its place in ${pauseMs} ms`)
    expect(nth.output().match(/takes its place/g)).toHaveLength(index + 1)
  }
  expect([200, 400, 3_200, 5_000].map((lastMs) => pauseBeforeNext(100, lastMs))).toEqual([
    400, 800, 5_000, 5_000,
  ])
  expect(pauseBeforeNext(60_000, 5_000)).toBe(0)
})

it('says once that its address can not be had, before a database is made', async () => {
  const other = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void other.close())
  await once(other, 'listening')
  const { port } = other.address() as { port: number }
  const directory = await temporaryDirectory()
  for (const [environment, line] of [
    [{ PORT: String(port) }, `127.0.0.1:${port}: something else uses this port. Choose another with PORT`],
    [{ HOST: '203.0.113.1' }, 'Choose another HOST or PORT'],
    [{ HOST: 'no-such-host.invalid' }, 'Choose another HOST or PORT'],
  ] as const) {
    const nth = spawnNth({ NTH_DATA_DIR: join(directory, 'data'), WORKERS: '3', ...environment })
    expect(await nth.exited).toBe(1)
    expect(nth.output().trim().split('\n')).toEqual([expect.stringContaining(line)])
    expect(await readdir(join(directory, 'data'))).toEqual([])
  }
})

it('answers 503 while it waits for a database, and ends when told', async () => {
  const free = createServer().listen(0, '127.0.0.1')
  await once(free, 'listening')
  const { port } = free.address() as { port: number }
  await new Promise((resolve) => free.close(resolve))
  const nth = spawnNth({
    DATABASE_URL: 'mysql://root@127.0.0.1:1/nth',
    PORT: String(port),
    WORKERS: '2',
  })
  await nth.printed('Waiting for the database nth at 127.0.0.1:1')
  const response = await fetch(`http://127.0.0.1:${port}/graphql?query={__typename}`)
  expect(response.status).toBe(503)
  nth.child.kill('SIGTERM')
  expect(await nth.exited).toBe(0)
})

it('takes a number of workers, or one a core', () => {
  expect(readConfig({}).workers).toBe(1)
  expect(readConfig({ WORKERS: '' }).workers).toBe(1)
  expect(readConfig({ WORKERS: '64' }).workers).toBe(64)
  expect(readConfig({ WORKERS: 'auto' }).workers).toBe(Math.min(availableParallelism(), 64))
  for (const WORKERS of ['0', '65', '-1', '1.5', 'two', '1e1']) {
    expect(() => readConfig({ WORKERS })).toThrow(
      'WORKERS must be a number of processes from 1 to 64, or auto for one a core.',
    )
  }
})
