import { createConnection } from 'mysql2/promise'
import { expect, it, onTestFinished } from 'vitest'
import { migrate } from '../src/mysql/migrate.ts'
import { type Client, upTo } from './support/client.ts'
import { query } from './support/database.ts'
import { openTestNth } from './support/nth.ts'
import { dataDirectory, startNth } from './support/nthProcess.ts'
import { PATIENCE, privateServer, signalServer } from './support/privateServer.ts'
import { startService } from './support/service.ts'

/** A caller that remembers everything it was told. */
function caller({ send }: Client) {
  const answered: number[] = []
  const refused: string[] = []
  const lost: unknown[] = []
  return {
    answered,
    refused,
    lost,
    async increment(): Promise<boolean> {
      try {
        const { data, errors } = await send('mutation { increment(name: "c") { value } }')
        if (errors?.[0]) refused.push(errors[0].extensions.code)
        else answered.push(data.increment.value)
        return !errors
      } catch (error) {
        lost.push(error)
        return false
      }
    },
  }
}

/** Keeps 16 callers incrementing until `disturb` is over. */
async function underLoad(increment: () => Promise<boolean>, disturb: () => Promise<void>): Promise<void> {
  let isOver = false
  const callers = upTo(16).map(async () => {
    while (!isOver) await increment()
  })
  await disturb()
  isOver = true
  await Promise.all(callers)
}

it('counts what it answered, exactly, while its database is killed three times under load', async () => {
  const directory = await dataDirectory()
  const nth = await startNth({ NTH_DATA_DIR: directory })
  const { increment, answered, refused } = caller(nth)
  await underLoad(increment, async () => {
    for (const time of upTo(3)) {
      await expect.poll(increment, PATIENCE).toBe(true)
      await signalServer(directory, 'SIGKILL')
      await expect.poll(() => nth.output().match(/ended by itself/g)?.length, PATIENCE).toBe(time)
    }
    await expect.poll(increment, PATIENCE).toBe(true)
  })
  const doubtful = refused.filter((code) => code === 'OUTCOME_UNKNOWN').length
  expect(refused.filter((code) => !['UNAVAILABLE', 'OUTCOME_UNKNOWN'].includes(code))).toEqual([])
  expect(new Set(answered).size).toBe(answered.length)
  const { value } = (await nth.ask('{ counter(name: "c") { value } }')).counter
  expect(value).toBeGreaterThanOrEqual(answered.length)
  expect(value).toBeLessThanOrEqual(answered.length + doubtful)
  expect(nth.output()).not.toContain('"level":50')
})

it('has in its database whatever it answered before it was killed under load', async () => {
  const directory = await dataDirectory()
  const first = await startNth({ NTH_DATA_DIR: directory })
  const { increment, answered } = caller(first)
  await underLoad(increment, async () => {
    await expect.poll(() => answered.length > 200, PATIENCE).toBe(true)
    first.child.kill('SIGKILL')
    await first.exited
  })
  const second = await startNth({ NTH_DATA_DIR: directory })
  const { value } = (await second.ask('{ counter(name: "c") { value } }')).counter
  expect(new Set(answered).size).toBe(answered.length)
  expect(value).toBeGreaterThanOrEqual(answered.length)
  // Each of the 16 callers had at most one call under way.
  expect(value).toBeLessThanOrEqual(answered.length + 16)
})

it('answers UNAVAILABLE while its database is down, and is back at work by itself', async () => {
  const directory = await dataDirectory()
  const database = await privateServer(directory)
  const service = await startService({ target: database.target })
  expect((await service.ask('mutation { increment(name: "c") { value } }')).increment.value).toBe(1)
  await database.close()
  const unavailable = { code: 'UNAVAILABLE', retryAfterMs: 1000, retryable: true }
  const { data, errors } = await service.send(
    'mutation { a: increment(name: "c") { value } b: reset(name: "new") { value } }',
  )
  expect(data).toEqual({ a: null, b: null })
  expect(errors?.map(({ path, extensions }) => [path, extensions])).toEqual([
    [['a'], unavailable],
    [['b'], unavailable],
  ])
  expect(await service.refusal('{ counter(name: "c") { value } }')).toEqual(unavailable)
  expect(await service.refusal('mutation { nextInSequence(name: "s") { value } }')).toEqual(unavailable)
  await privateServer(directory)
  const { increment, answered } = caller(service)
  await expect.poll(increment, PATIENCE).toBe(true)
  expect(answered).toEqual([2])
  expect(service.faults).toEqual([])
})

it('does not let callers wait for ever on a database that is frozen', async () => {
  const directory = await dataDirectory()
  const { target } = await privateServer(directory)
  await migrate(target)
  const { counters } = openTestNth(target, { timeoutMs: 300 })
  const key = { namespace: 'n', name: 'c' }
  expect((await counters.incrementBy(key, 1)).value).toBe(1)
  await signalServer(directory, 'SIGSTOP')
  try {
    await expect(counters.incrementBy(key, 1)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    await expect(counters.read(key)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    await expect(counters.incrementBy({ ...key, name: 'new' }, 1)).rejects.toMatchObject({
      code: 'UNAVAILABLE',
    })
  } finally {
    await signalServer(directory, 'SIGCONT')
  }
  await expect.poll(() => counters.read(key).catch(() => undefined), PATIENCE).toBeDefined()
  expect((await counters.read(key)).value).toBe(1)
  await expect
    .poll(() => counters.incrementBy(key, 1).catch(() => undefined), PATIENCE)
    .toMatchObject({ value: 2 })
})

it('answers UNAVAILABLE, having done nothing, when somebody holds a row for longer than it waits', async () => {
  const service = await startService()
  await service.ask('mutation { a: increment(name: "c") { value } b: increment(name: "free") { value } }')
  const [counter] = await query(service.target, "select id from counter where name = 'c'")
  const holder = await createConnection(service.target)
  onTestFinished(() => holder.destroy())
  await holder.query('begin')
  await holder.query(`select * from counter_value where counter_id = ${counter?.id} for update`)
  const held = service.refusal('mutation { increment(name: "c") { value } }')
  expect((await service.ask('mutation { increment(name: "free") { value } }')).increment.value).toBe(2)
  expect(await held).toMatchObject({ code: 'UNAVAILABLE' })
  await holder.end()
  expect(await query(service.target, 'select max(value) as value from counter_value')).toEqual([{ value: 2 }])
  expect((await service.ask('mutation { increment(name: "c") { value } }')).increment.value).toBe(2)
})
