import { describe, expect, it } from 'vitest'
import { batchOf, type Transaction, WaitingCalls } from '../../src/commit/batch.ts'
import { Call, onCounter } from '../../src/commit/call.ts'
import { SYSTEM_CLOCK } from '../../src/commit/clock.ts'
import { openGroupCommit } from '../../src/commit/groupCommit.ts'
import { SILENT } from '../../src/operations/log.ts'
import { openRunningPeriods } from '../../src/rules/periods.ts'
import { Queue } from '../../src/rules/queue.ts'
import type { CounterRow } from '../../src/rules/rows.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase } from '../support/database/database.ts'
import { type Delivery, startProxy, TEXTS } from '../support/database/proxy.ts'
import { PLAIN } from '../support/model/plain.ts'
import { AMPLE_MS, openTestNth } from '../support/server/nth.ts'

/* What random calls are answered is tested in `simulation`, and on a real database in `repository/model.test.ts`. */

const row: CounterRow = {
  kind: 'counter',
  id: 1,
  namespaceId: 1,
  version: 1,
  incarnation: 0,
  definition: PLAIN,
  salt: undefined,
  forgottenSecond: 0,
  changedAt: 0,
}

/** A call that adds 1 to each of some rows. */
function callOn(rows: readonly CounterRow[], owner?: Call['request']['owner']): Call {
  const call = new Call({ operations: [], mode: 'all', owner }, 0, Infinity, () => undefined)
  call.operations = rows.map((each) => ({
    kind: 'counter',
    row: each,
    operation: { kind: 'add', delta: 1 },
  }))
  return call
}

describe('the group commit', () => {
  it('flushes the calls of one tick together, and later calls together when that is done', async () => {
    let flushes = 0
    let gate = Promise.resolve()
    const target = await startProxy(await freshDatabase(), async (statement): Promise<Delivery> => {
      if (TEXTS.addsAndCommits.test(statement)) {
        flushes += 1
        await gate
      }
      return 'passes'
    })
    const { counters } = openTestNth(target)
    const key = { namespace: 'n', name: 'c' }
    await counters.reset(key, 0)
    const callers = (count: number) => upTo(count).map(() => counters.incrementBy(key, 1))
    let open: () => void = () => undefined
    gate = new Promise((resolve) => {
      open = resolve
    })
    const first = callers(3)
    await expect.poll(() => flushes).toBe(1)
    const second = [...callers(2), ...callers(4)]
    await new Promise(setImmediate)
    second.push(...callers(1))
    expect(flushes).toBe(1)
    open()
    const values = (await Promise.all([...first, ...second])).map(({ value }) => value)
    expect(values).toEqual(upTo(10))
    expect(flushes).toBe(2)
  })

  it('takes a waiting call after at most one of each other owner, and each call once', async () => {
    const waiting = new WaitingCalls()
    const owners = new Map<Call, string>()
    let rows = 0
    const add = (address: string, size: number): Call => {
      const owner = { identity: 'page', address, hasLeft: false }
      const call = callOn(
        upTo(size).map(() => ({ ...row, id: rows++ })),
        owner,
      )
      owners.set(call, address)
      waiting.add(call)
      return call
    }
    function flush(): (string | undefined)[] {
      const calls = waiting.next()
      for (const call of calls) call.flush()
      return calls.map((call) => owners.get(call))
    }
    for (const greedy of ['a', 'b', 'c']) for (const _ of upTo(4)) add(greedy, 500)
    add('honest', 1)
    expect(flush()).toEqual(['a', 'b'])
    add('honest', 1)
    expect(flush()).toEqual(['c', 'honest'])
    add('late', 1)
    expect(flush()).toEqual(['a', 'b'])
    expect(flush()).toEqual(['c', 'honest'])
    expect(flush()).toEqual(['a', 'late'])
    expect([flush(), flush(), flush()].flat().toSorted()).toEqual(['a', 'b', 'b', 'c', 'c'])
    for (const _ of upTo(1500)) add('greedy', 1)
    waiting.next()
    // It is answered at its deadline, and is in no flush.
    const gone = add('gone', 1)
    gone.answer.catch(() => undefined)
    gone.settle(new Error('late'))
    const twice = add('honest', 1)
    twice.waitIn(new Queue())
    waiting.add(twice)
    expect(flush().filter((address) => address === 'honest')).toHaveLength(1)
    flush()
    expect(waiting.calls.size).toBe(0)
  })

  it('never takes two rows of one id for the same, as those of two databases are', () => {
    const options = {
      at: new Date(),
      approach: { kind: 'quick' },
      context: { runningPeriods: openRunningPeriods(), random: () => 0 },
    } as const
    // As it was before a failover.
    const before = { ...row, incarnation: -1 }
    expect(batchOf([callOn([row]), callOn([before])], options)).toBeUndefined()
    expect(batchOf([callOn([row]), callOn([row])], options)?.counters).toHaveLength(1)
  })

  it.each<[string, Partial<Transaction>, string]>([
    [
      'where a writer fails in a way that it must not',
      { commit: () => Promise.reject(new Error('broken')) },
      'broken',
    ],
    [
      'where COMMIT is not sent as soon as all callers were seen waiting',
      { isCommitSent: false },
      'COMMIT is sent as soon as all callers were seen waiting',
    ],
  ])('does not send again what may have counted, %s', async (_, broken, message) => {
    const faults: unknown[] = []
    let flushes = 0
    const transaction: Transaction = {
      kind: 'transaction',
      fitsOneTrip: true,
      isCommitSent: true,
      read: () => Promise.reject(new Error('It takes one trip')),
      write: () => undefined,
      commit: async () => ({ kind: 'committed' }),
      rollBack: async () => undefined,
      ...broken,
    }
    const begin = async () => {
      flushes += 1
      return transaction
    }
    const { change } = openGroupCommit({
      openWriter: () => ({ begin, close: async () => undefined }),
      timeoutMs: AMPLE_MS,
      maxPending: 1000,
      keyTtlMs: 1,
      clock: SYSTEM_CLOCK,
      notices: { ...SILENT, fault: (fault) => void faults.push(fault) },
      onApplied: () => undefined,
      now: () => new Date(0),
      random: () => 0,
    })
    const load = async () => row
    const rows = { cached: () => row, load, loadOrCreate: load, forget: () => undefined }
    const call = change({ operations: [onCounter(rows, 'c', { kind: 'add', delta: 1 })], mode: 'one' })
    const cause = { message: expect.stringContaining(message) }
    await expect(call).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN', cause })
    expect(faults).toEqual([expect.objectContaining(cause)])
    expect(flushes).toBe(1)
  })

  it('never commits a call that was answered, or that is in no flush', () => {
    const answered = callOn([row])
    answered.waitIn(new Queue())
    answered.flush()
    answered.answer.catch(() => undefined)
    answered.settle(new Error('late'))
    expect(() => answered.commit()).toThrow('not answered')
    const waiting = callOn([row])
    expect(() => waiting.flush()).toThrow('has waited')
    waiting.waitIn(new Queue())
    expect(() => waiting.commit()).toThrow('in a flush')
  })
})
