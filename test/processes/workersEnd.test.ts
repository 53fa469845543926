// @module-tag slow
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { sorted, upTo } from '../support/client/client.ts'
import { dataDirectory, spawnNth, startNth, temporaryDirectory } from '../support/server/nthProcess.ts'
import { connectionsAt, databaseOf, isAlive, workersOf } from '../support/server/processes.ts'
import { increment, openRequest, startTwo, untilRefused } from '../support/server/workers.ts'
import { soon } from '../support/soon.ts'

it('answers all it has accepted when a Ctrl-C reaches every process, and leaves none, nor a database', async () => {
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

it('ends at once, workers too, on a second signal', async () => {
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

it('leaves no process when the one that holds the workers is killed', async () => {
  const directory = await dataDirectory()
  const nth = await startNth({ NTH_DATA_DIR: directory, WORKERS: '2' })
  await increment(nth)
  const pids = [...(await workersOf(nth)), await databaseOf(directory)]
  nth.child.kill('SIGKILL')
  await expect.poll(() => Promise.all(pids.map(isAlive))).toEqual([false, false, false])
})

it('says once that its address can not be had, before a database is made', async () => {
  const other = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void other.close())
  await once(other, 'listening')
  const { port } = other.address() as { port: number }
  const directory = await temporaryDirectory()
  for (const [environment, line] of [
    [{ PORT: String(port) }, `Port ${port} of 127.0.0.1 is in use. Set PORT to another one`],
    [{ HOST: '203.0.113.1', NTH_ANONYMOUS: 'READ' }, '203.0.113.1 is not an address of this machine'],
    [
      { HOST: 'no-such-host.invalid', NTH_ANONYMOUS: 'READ' },
      'The name no-such-host.invalid could not be resolved',
    ],
  ] as const) {
    const nth = spawnNth({ NTH_DATA_DIR: join(directory, 'data'), WORKERS: '3', ...environment })
    expect(await nth.exited).toBe(1)
    expect(nth.errors().trim().split('\n')).toEqual([expect.stringContaining(line)])
    expect(await readdir(join(directory, 'data'))).toEqual([])
  }
})
