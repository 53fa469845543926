// @module-tag random
import fc from 'fast-check'
import { expect, it } from 'vitest'
import {
  type CounterWork,
  isCoalesced,
  type Outcome,
  WaitingCalls,
  type Writer,
} from '../../src/commit/batch.ts'
import { Call } from '../../src/commit/call.ts'
import { SILENT } from '../../src/operations/log.ts'
import { Queue } from '../../src/rules/queue.ts'
import { finds, search } from '../history/search.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase } from '../support/database/database.ts'
import { emptyState, rowOf } from '../support/model/model.ts'
import {
  courses,
  emptyTable,
  modelRows,
  modelWriter,
  openModel,
  ticksLater,
} from '../support/model/modelStore.ts'
import { observe, operations } from '../support/model/operations.ts'
import { meetsRareCases, runSize } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'

const requests = fc.array(
  fc.record({ ticks: fc.nat({ max: 10 }), operation: operations, process: fc.nat({ max: 1 }) }),
  {
    minLength: 1,
    maxLength: 40,
  },
)

it('returns to every caller what happened, under random schedules and failures, in two processes', async () => {
  const seen = new Map<string, number>()
  await fc.assert(
    fc.asyncProperty(requests, courses, async (calls, stream) => {
      const table = emptyTable()
      const processes = [1, 2].map(() => openModel(() => modelWriter(table, stream), modelRows(table)))
      let clock = 0
      const observed = await Promise.all(
        calls.map(async ({ ticks, operation, process }) => {
          await ticksLater(ticks)
          const counters = processes[process]
          if (!counters) throw new Error('There are two')
          return observe(counters, operation, () => ++clock)
        }),
      )
      for (const { outcome } of observed) {
        const what = 'code' in outcome ? outcome.code : outcome.isReplayed ? 'replayed' : 'done'
        seen.set(what, (seen.get(what) ?? 0) + 1)
      }
      const steps = observed.flatMap(({ step }) => step ?? [])
      const isFound = ({ rows }: typeof emptyState) =>
        ['a', 'b', 'c'].every((name) => {
          const { value, added } = table.rows.get(name) ?? { value: 0, added: 0 }
          return rowOf(rows, name).value === value && rowOf(rows, name).added === added
        })
      expect(search([...steps, finds(isFound, clock)], emptyState).kind).toBe('linearizable')
    }),
    { numRuns: runSize(100, 500) },
  )
  const outcomes = [
    'done',
    'replayed',
    'LIMIT_REACHED',
    'OUT_OF_RANGE',
    'IDEMPOTENCY_KEY_REUSED',
    'UNAVAILABLE',
    'OUTCOME_UNKNOWN',
  ]
  for (const what of meetsRareCases() ? outcomes : [])
    expect([what, (seen.get(what) ?? 0) > 0]).toEqual([what, true])
})

it('sends the calls of one tick as one batch at its end, and batches later calls while that is under way', async () => {
  const flushed: number[] = []
  let finish: () => void = () => undefined
  const writer = writerWith((counters) => {
    flushed.push(counters.reduce((sum, work) => sum + (isCoalesced(work) ? work.path.sum : 0), 0))
    return new Promise((resolve) => {
      finish = () => resolve({ kind: 'committed' })
    })
  })
  const rows = modelRows(emptyTable())
  const { incrementBy } = openModel(() => writer, rows)
  const key = { namespace: 'n', name: 'c' }
  await rows.load(key)
  const callers = (count: number) => Array.from({ length: count }, () => incrementBy(key, 1))
  const first = callers(3)
  await ticksLater(1)
  expect(flushed).toEqual([3])
  const second = [...callers(2), ...callers(4)]
  await ticksLater(5)
  second.push(...callers(1))
  expect(flushed).toEqual([3])
  finish()
  expect((await Promise.all(first)).map(({ value }) => value)).toEqual([1, 2, 3])
  await ticksLater(1)
  expect(flushed).toEqual([3, 7])
  finish()
  expect((await Promise.all(second)).map(({ value }) => value)).toEqual([1, 2, 3, 4, 5, 6, 7])
})

it('makes the changes of each owner in turn where more wait than a flush takes', async () => {
  const { counters } = openTestNth(await freshDatabase())
  const single = { namespace: 'n', name: 'single' }
  const carts = upTo(6).map((cart) => upTo(500).map((index) => ({ name: `${cart}-${index}`, delta: 1 })))
  for (const cart of carts) await counters.incrementMany('n', cart)
  await counters.incrementBy(single, 1)
  const answered: string[] = []
  const note = (who: string) => () => answered.push(who)
  const ownerOf = (identity: string, address: string) => ({ identity, address, hasLeft: false })
  const visitor = ownerOf('page', '192.0.2.2')
  await Promise.all([
    ...carts.map((cart) =>
      counters.incrementMany('n', cart, { owner: ownerOf('page', '192.0.2.1') }).then(note('carts')),
    ),
    counters.incrementBy(single, 1, { owner: visitor }).then(note('visitor')),
    counters.incrementBy(single, 1, { owner: visitor }).then(note('visitor again')),
    counters.incrementBy(single, 1, { owner: ownerOf('server', '192.0.2.3') }).then(note('server')),
  ])
  // A flush takes a thousand counters: two carts are too many beside another counter. The second has the next turn.
  expect(answered.slice(0, 5)).toEqual(['carts', 'server', 'visitor', 'carts', 'visitor again'])
})

it('takes a waiting call after at most one of each other owner, and each call once', async () => {
  const row = await modelRows(emptyTable()).load({ namespace: 'n', name: 'c' })
  if (!row) throw new Error('It is created')
  const waiting = new WaitingCalls()
  const owners = new Map<Call, string>()
  let rows = 0
  const add = (address: string, size: number): Call => {
    const owner = { identity: 'page', address, hasLeft: false }
    const call = new Call({ operations: [], mode: 'all', owner }, 0, Infinity, () => undefined)
    call.operations = upTo(size).map(() => ({
      kind: 'counter',
      row: { ...row, id: rows++ },
      operation: { kind: 'add', delta: 1 },
    }))
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
  const twice = add('honest', 1)
  twice.waitIn(new Queue())
  waiting.add(twice)
  expect(flush().filter((address) => address === 'honest')).toHaveLength(1)
  flush()
  expect(waiting.calls.size).toBe(0)
})

it('never takes two rows of one id for the same, as those of two databases are', async () => {
  const table = emptyTable()
  const rows = modelRows(table)
  const [here, elsewhere] = ['a', 'b'].map((name) => ({ namespace: 'n', name }))
  if (!here || !elsewhere) throw new Error('There are two')
  const row = await rows.load(here)
  // That of `b`, as it was before a failover.
  let before = row && { ...row, incarnation: -1, name: 'b' }
  const { incrementBy } = openModel(
    () => modelWriter(table, always({ outcome: 'committed', ticks: 0, run: 1 })),
    {
      ...rows,
      cached: (key) => (key.name === 'b' ? before : undefined) ?? rows.cached(key),
      forget(key) {
        if (key.name === 'b') before = undefined
        rows.forget(key)
      },
    },
  )
  const answers = await Promise.all([incrementBy(here, 1), incrementBy(elsewhere, 1), incrementBy(here, 1)])
  expect(answers.map(({ value }) => value)).toEqual([1, 1, 2])
  expect([...table.rows.values()].map(({ value }) => value)).toEqual([2, 1])
})

function* always<Value>(value: Value): Generator<Value, never> {
  while (true) yield value
}

it('does not send again what may be committed, when a writer fails in a way that it must not', async () => {
  let flushes = 0
  const faults: unknown[] = []
  const broken = new Error('broken')
  const writer = writerWith(async () => {
    flushes += 1
    throw broken
  })
  const { incrementBy } = openModel(() => writer, modelRows(emptyTable()), {
    notices: { ...SILENT, fault: (fault) => void faults.push(fault) },
  })
  const key = { namespace: 'n', name: 'c' }
  await expect(incrementBy(key, 1)).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN', cause: broken })
  expect([flushes, faults]).toEqual([1, [broken]])
})

it('reports a COMMIT that is not sent as soon as all callers were seen waiting, and says that it may have counted', async () => {
  const faults: unknown[] = []
  const writer = writerWith(async () => ({ kind: 'committed' }), { isCommitSent: false })
  const { incrementBy } = openModel(() => writer, modelRows(emptyTable()), {
    notices: { ...SILENT, fault: (fault) => void faults.push(fault) },
  })
  await expect(incrementBy({ namespace: 'n', name: 'c' }, 1)).rejects.toMatchObject({
    code: 'OUTCOME_UNKNOWN',
    cause: { message: expect.stringContaining('COMMIT is sent as soon as all callers were seen waiting') },
  })
  expect(faults).toHaveLength(1)
})

it('never commits a call that was answered, or that is in no flush', () => {
  const openCall = () => new Call({ operations: [], mode: 'one' }, 0, Infinity, () => undefined)
  const answered = openCall()
  answered.waitIn(new Queue())
  answered.flush()
  answered.answer.catch(() => undefined)
  answered.settle(new Error('late'))
  expect(() => answered.commit()).toThrow('not answered')
  const waiting = openCall()
  expect(() => waiting.flush()).toThrow('has waited')
  waiting.waitIn(new Queue())
  expect(() => waiting.commit()).toThrow('in a flush')
})

/** A writer whose counters have the value 0, with what its COMMIT answers. */
function writerWith(
  commit: (counters: readonly CounterWork[]) => Promise<Outcome>,
  { isCommitSent = true } = {},
): Writer {
  return {
    async begin({ counters }) {
      const reading = {
        value: 0,
        isAdded: true,
        periods: undefined,
        revision: undefined,
        first: undefined,
        now: 0,
      }
      return {
        kind: 'transaction',
        fitsOneTrip: false,
        isCommitSent,
        read: async () => ({
          kind: 'read',
          counters: new Map(counters.map((work) => [work, reading])),
          sequenceGroups: new Map(),
          earlier: [],
        }),
        write: () => undefined,
        commit: () => commit(counters),
        rollBack: async () => undefined,
      }
    },
    close: async () => undefined,
  }
}
