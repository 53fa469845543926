// @module-tag slow
import { expect, it } from 'vitest'
import { expectLinearizable } from '../history/expectLinearizable.ts'
import { createRecorder } from '../history/recorder.ts'
import { inParallel, upTo } from '../support/client/client.ts'
import { freshDatabase, urlOf } from '../support/database/database.ts'
import { startProxy } from '../support/database/proxy.ts'
import { type NthProcess, startNth } from '../support/server/nthProcess.ts'

const INCREMENT = 'mutation($key: String!) { increment(name: "c", idempotencyKey: $key) { value replayed } }'

async function valueIn({ ask }: NthProcess): Promise<number> {
  return (await ask('{ counter(name: "c") { value } }')).counter.value
}

it('counts one of 50 parallel calls with one key through two processes, and replays 49', async () => {
  const DATABASE_URL = urlOf(await freshDatabase())
  const processes = [await startNth({ DATABASE_URL }), await startNth({ DATABASE_URL })]
  for (const round of upTo(10)) {
    const answers = await inParallel(50, 50, async (index) => {
      const process = processes[index % 2]
      return (await process?.ask(INCREMENT, { key: `k${round}` }))?.increment
    })
    expect(answers.map(({ value }) => value)).toEqual(upTo(50).map(() => round))
    expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1)
  }
  for (const process of processes) expect(await valueIn(process)).toBe(10)
})

it('replays what counted when its process was killed between COMMIT and the answer', async () => {
  const target = await freshDatabase()
  let killed: NthProcess | undefined
  const proxied = await startProxy(target, (statement) => {
    // The database will execute the statement, but the process that would read its answer no longer exists.
    if (killed && /commit$/.test(statement) && statement.includes('idempotency_key'))
      killed.child.kill('SIGKILL')
    return 'passes'
  })
  const doomed = await startNth({ DATABASE_URL: urlOf(proxied) })
  const other = await startNth({ DATABASE_URL: urlOf(target) })
  await doomed.ask('mutation { increment(name: "c") { value } }')
  killed = doomed
  const calls = upTo(50).map(() => doomed.ask(INCREMENT, { key: 'k' }))
  const first = await Promise.allSettled(calls)
  expect(first.map(({ status }) => status)).toEqual(upTo(50).map(() => 'rejected'))
  expect(await doomed.exited).toBe('SIGKILL')

  const answers = await inParallel(50, 50, async () => (await other.ask(INCREMENT, { key: 'k' })).increment)
  expect(answers).toEqual(upTo(50).map(() => ({ value: 2, replayed: true })))
  expect(await valueIn(other)).toBe(2)
})

it('counts every purchase once when clients repeat what a killed process left unanswered', async () => {
  const DATABASE_URL = urlOf(await freshDatabase())
  const [doomed, other] = [await startNth({ DATABASE_URL }), await startNth({ DATABASE_URL })]
  const recorder = createRecorder()
  await inParallel(32, 2000, async (index) => {
    if (index === 700) doomed.child.kill('SIGKILL')
    const purchase = { kind: 'increment', name: 'c', idempotencyKey: `purchase ${index}` } as const
    const servers = index % 2 === 0 ? [doomed, other, other] : [other, doomed, other]
    for (const { send } of servers) {
      if ((await recorder.call(index, send, purchase)).kind === 'answered') return
    }
  })
  expect(await doomed.exited).toBe('SIGKILL')
  await recorder.call('last', other.send, { kind: 'counters', names: ['c'] })
  await expectLinearizable(recorder.records)
  expect(await valueIn(other)).toBe(2000)
})
