// @module-tag slow
import { expect, it } from 'vitest'
import { checkHistory } from '../history/check.ts'
import type { Answer, CallRecord } from '../history/history.ts'
import { balanceFaults } from '../history/holdBalance.ts'
import { recordHolds } from '../history/holdHistory.ts'
import { createRecorder } from '../history/recorder.ts'
import { urlOf } from '../support/database/database.ts'
import { privateServer, signalServer } from '../support/database/privateServer.ts'
import { createRandom } from '../support/random.ts'
import { dataDirectory, startNth } from '../support/server/nthProcess.ts'

it('hold: answers as if calls came one after the other while servers and the database are killed under holds', async () => {
  const directory = await dataDirectory()
  const { target } = await privateServer(directory)
  const start = () => startNth({ DATABASE_URL: urlOf(target), NTH_WRITE_TIMEOUT_MS: '5000' })
  const servers: [ReturnType<typeof start>, ReturnType<typeof start>] = [start(), start()]
  await Promise.all(servers)
  const recorder = createRecorder()
  let isOver = false
  const callers = recordHolds(recorder, (attempt) => servers[attempt % 2 === 0 ? 0 : 1], {
    callers: 4,
    random: createRandom(),
    isOver: () => isOver,
  })

  async function restart(index: 0 | 1): Promise<void> {
    const { child, exited } = await servers[index]
    child.kill('SIGKILL')
    servers[index] = exited.then(start)
    await servers[index]
  }
  const answered = () => recorder.records.filter(({ outcome }) => outcome.kind === 'answered').length
  const killDatabase = () => signalServer(directory, 'SIGKILL')
  for (const kill of [() => restart(0), killDatabase, () => restart(1), killDatabase]) {
    const before = answered()
    await expect.poll(answered).toBeGreaterThan(before + 120)
    await kill()
  }
  const before = answered()
  await expect.poll(answered).toBeGreaterThan(before + 120)
  isOver = true
  await callers

  // Callers have closed all holds except those that expire after a second.
  const read = { kind: 'counters', names: ['credits', 'seats'] } as const
  for (const server of servers) {
    const { send } = await server
    const held = expect.objectContaining({ held: 0, heldDown: 0 })
    await expect
      .poll(() => recorder.call('last', send, read))
      .toEqual({ kind: 'answered', answer: [held, held] })
  }
  const { records } = recorder
  expect(balanceFaults(records, 'credits')).toEqual([])
  // A search that gives up says nothing: it does where too many calls overlap.
  const options = { toleranceMs: 100, limit: 200_000 }
  const { faults, givenUp } = checkHistory(records, options)
  if (givenUp.length > 0) console.log(givenUp.map(({ reason }) => reason).join())
  expect(faults).toEqual([])

  // The checks find what is wrong.
  const wrong = (change: (record: CallRecord) => CallRecord | undefined) => {
    const place = records.findLastIndex((record) => change(record))
    return records.map((record, index) => (index === place ? (change(record) ?? record) : record))
  }
  const oneMore = wrong((record) => {
    const { operation, outcome } = record
    if (operation.kind !== 'counters' || outcome.kind !== 'answered' || record.caller === 'last') return
    const answer = [outcome.answer ?? {}].flat()
    return { ...record, outcome: { kind: 'answered', answer: answer.map(heldMore) } }
  })
  const twice = wrong((record) => {
    const { operation, outcome } = record
    if (operation.kind !== 'incrementBy' || operation.name !== 'credits') return
    if (outcome.kind !== 'answered' || outcome.answer === null) return
    const { appliedDelta, ...first } = [outcome.answer].flat()[0] ?? {}
    return {
      ...record,
      outcome: { kind: 'answered', answer: { ...first, appliedDelta: Number(appliedDelta) + 1 } },
    }
  })
  expect(balanceFaults(twice, 'credits')).toHaveLength(1)
  // The true history was accepted; this one is refused, or its search gives up.
  const found = checkHistory(oneMore, options)
  expect(found.faults.length + found.givenUp.length).toBe(1)
})

const heldMore = ({ held = 0, ...answer }: Answer): Answer => ({ ...answer, held: held + 1 })
