// @module-tag slow
import { expect, it } from 'vitest'
import { migrate } from '../../src/repository/migrate.ts'
import { expectLinearizable } from '../history/expectLinearizable.ts'
import { createRecorder } from '../history/recorder.ts'
import { type Client, upTo } from '../support/client/client.ts'
import { startLoad } from '../support/client/load.ts'
import { urlOf } from '../support/database/database.ts'
import { privateServer, signalServer } from '../support/database/privateServer.ts'
import { openTestNth } from '../support/server/nth.ts'
import { dataDirectory, startNth } from '../support/server/nthProcess.ts'
import { startService } from '../support/server/service.ts'

/** Callers who increment, until they are ended. */
function load({ send }: Client, callers: number) {
  const recorder = createRecorder()
  const { answered, refused, afterMore, end } = startLoad(callers, async (caller) => {
    const outcome = await recorder.call(caller, send, { kind: 'increment', name: 'c' })
    if (outcome.kind === 'answered') return 1
    throw new Error(JSON.stringify(outcome))
  })
  return {
    answered,
    refused,
    afterMore,
    /** Ends them, and checks what they were answered against a server that they may have called. */
    async end(last: Client) {
      await end()
      await recorder.call('last', last.send, { kind: 'counters', names: ['c'] })
      await expectLinearizable(recorder.records)
    },
  }
}

it('counts what it answered, exactly, while its database is killed three times under load', async () => {
  const directory = await dataDirectory()
  const nth = await startNth({ NTH_DATA_DIR: directory })
  const callers = load(nth, 64)
  for (const time of upTo(3)) {
    await callers.afterMore(500)
    await signalServer(directory, 'SIGKILL')
    await expect.poll(() => nth.output().match(/exited unexpectedly/g)?.length).toBe(time)
  }
  await callers.afterMore(500)
  await callers.end(nth)
  expect(callers.refused).toEqual([])
  expect(nth.output()).not.toContain('"level":50')
})

it('says on the standard error, once, that its database is out of reach, and that it is back', async () => {
  const directory = await dataDirectory()
  const database = await privateServer(directory)
  const nth = await startNth({ DATABASE_URL: urlOf(database.target), NTH_WRITE_TIMEOUT_MS: '3000' })
  await nth.ask('mutation { increment(name: "c") { value } }')
  await database.close()
  await Promise.all(upTo(3).map(() => nth.send('mutation { increment(name: "c") { value } }')))
  await privateServer(directory)
  await expect
    .poll(() => nth.send('mutation { increment(name: "c") { value } }'))
    .not.toHaveProperty('errors')
  expect(nth.errors().match(/unavailable|available again/g)).toEqual(['unavailable', 'available again'])
})

it('has in its database whatever it answered before it was killed under load', async () => {
  const directory = await dataDirectory()
  const first = await startNth({ NTH_DATA_DIR: directory })
  const { afterMore, end } = load(first, 16)
  await afterMore(200)
  first.child.kill('SIGKILL')
  await first.exited
  await end(await startNth({ NTH_DATA_DIR: directory }))
})

it('answers UNAVAILABLE while its database is down, and is back at work by itself', {
  tags: 'quick',
}, async () => {
  const directory = await dataDirectory()
  const database = await privateServer(directory)
  const service = await startService({ target: database.target, writeTimeoutMs: 500 })
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
  expect((await service.ask('mutation { increment(name: "c") { value } }')).increment.value).toBe(2)
  expect(service.faults).toEqual([])
})

it('does not let callers wait for ever on a database that is frozen', async () => {
  const directory = await dataDirectory()
  const { target } = await privateServer(directory)
  await migrate(target)
  const patient = openTestNth(target).counters
  const { counters } = openTestNth(target, { timeoutMs: 300 })
  const key = { namespace: 'n', name: 'c' }
  expect((await patient.incrementBy(key, 1)).value).toBe(1)
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
  expect((await patient.read(key)).value).toBe(1)
  await expect.poll(() => counters.incrementBy(key, 1).catch(() => undefined)).toMatchObject({ value: 2 })
})
