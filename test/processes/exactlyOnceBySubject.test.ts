// @module-tag slow
import { expect, it } from 'vitest'
import { migrate } from '../../src/repository/migrate.ts'
import { expectLinearizable } from '../history/expectLinearizable.ts'
import { createRecorder } from '../history/recorder.ts'
import { inParallel, sorted, upTo } from '../support/client/client.ts'
import { freshDatabase, urlOf } from '../support/database/database.ts'
import { privateServer, signalServer } from '../support/database/privateServer.ts'
import { openTestNth } from '../support/server/nth.ts'
import { dataDirectory, startNth } from '../support/server/nthProcess.ts'

const SUBJECTS = 200
const CALLERS = 50

/** Each subject has one number, and together they have the first ones. */
function expectOnce(calls: readonly { subject: string; value: number }[]): void {
  const numbers = new Map<string, Set<number>>()
  for (const { subject, value } of calls)
    numbers.set(subject, (numbers.get(subject) ?? new Set<number>()).add(value))
  expect(sorted([...numbers.values()].flatMap((own) => [...own]))).toEqual(upTo(SUBJECTS))
}

it('counts each of 200 subjects once, with 50 callers each, while the database of two processes is killed', async () => {
  const key = { namespace: 'n', name: 'c' }
  const directory = await dataDirectory()
  const { target } = await privateServer(directory)
  await migrate(target)
  const processes = upTo(2).map(() => openTestNth(target))
  const kills = new Set([2000, 6000])
  const calls = await inParallel(400, SUBJECTS * CALLERS, async (index) => {
    if (kills.has(index)) await signalServer(directory, 'SIGKILL')
    const subject = `subject ${index % SUBJECTS}`
    const counters = processes[index % 2]?.counters
    if (!counters) throw new Error('There are two')
    const { value } = await counters.countOnce(key, subject)
    return { subject, value }
  })
  expectOnce(calls)
  expect(await processes[0]?.counters.read(key)).toMatchObject({ value: SUBJECTS })
})

it('returns to subjects that call again the number that they got from a process that was killed', async () => {
  const DATABASE_URL = urlOf(await freshDatabase())
  const doomed = await startNth({ DATABASE_URL })
  const other = await startNth({ DATABASE_URL })
  const recorder = createRecorder()
  await inParallel(32, SUBJECTS * 10, async (index) => {
    if (index === 700) doomed.child.kill('SIGKILL')
    const vote = { kind: 'increment', name: 'c', subject: `subject ${index % SUBJECTS}` } as const
    for (const { send } of index % 3 > 0 ? [doomed, other] : [other]) {
      if ((await recorder.call(index, send, vote)).kind === 'answered') return
    }
  })
  expect(await doomed.exited).toBe('SIGKILL')
  await recorder.call('last', other.send, { kind: 'counters', names: ['c'] })
  await expectLinearizable(recorder.records)
  expect((await other.ask('{ counter(name: "c") { value } }')).counter.value).toBe(SUBJECTS)
})
