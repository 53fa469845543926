import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Call } from '../src/core/calls.ts'
import type { Operation } from '../src/core/dealing.ts'
import { openGroupCommit } from '../src/core/groupCommit.ts'
import type { Flush, Lane, Outcome, Row, Rows } from '../src/core/lane.ts'

const MAX = Number.MAX_SAFE_INTEGER

/** How a flush goes: what its lane meets, in the order of its trips. */
type Fate =
  | 'committed'
  | 'conflict'
  | 'culprit'
  | 'gone'
  | 'lost, applied'
  | 'lost, not applied'
  | 'lost for good'

const fates = fc.infiniteStream(
  fc.record({
    fate: fc.oneof(
      { weight: 3, arbitrary: fc.constant<Fate>('committed') },
      {
        weight: 1,
        arbitrary: fc.constantFrom<Fate>(
          'conflict',
          'culprit',
          'culprit',
          'culprit',
          'gone',
          'lost, applied',
          'lost, not applied',
          'lost for good',
        ),
      },
    ),
    turns: fc.nat({ max: 3 }),
    run: fc.nat(),
  }),
)

interface ModelRow extends Row {
  id: number
}

interface Table {
  values: Map<number, number>
  /** Each row's last transaction. */
  locks: Map<number, Promise<void>>
  /** How often each call took effect. */
  effects: Map<Call, number>
  /** Every call that was ever in a flush. */
  sent: Set<Call>
}

/** A lane on rows in memory, whose flushes go as the stream says. */
function modelLane(
  table: Table,
  stream: Iterator<{ fate: Fate; turns: number; run: number }>,
): Lane<ModelRow> {
  async function flush(flush: Flush<ModelRow>): Promise<Outcome> {
    const { promise: ended, resolve: unlock } = deferred()
    // As a database does: rows are locked one after another, in one order, until the transaction ends.
    for (const id of flush.runs.map(({ row }) => row.id).toSorted((a, b) => a - b)) {
      const before = table.locks.get(id)
      table.locks.set(id, ended)
      await before
    }
    const outcome = await transact(flush)
    unlock()
    return outcome
  }

  async function transact({ runs, deal, mayCommit }: Flush<ModelRow>): Promise<Outcome> {
    const { fate, turns, run } = stream.next().value
    for (const { calls } of runs) for (const call of calls) table.sent.add(call)
    await turnsLater(turns)
    if (fate === 'conflict') return { kind: 'failed', cause: fate }
    if (fate === 'culprit')
      return { kind: 'failed', cause: fate, culprit: run % runs.length, isFault: run % 2 === 0 }
    const previous = runs.map(({ row }, index) =>
      fate === 'gone' && index === run % runs.length ? undefined : (table.values.get(row.id) ?? 0),
    )
    const writes = deal(previous)
    await turnsLater(turns)
    if (!writes || !mayCommit()) return { kind: 'withdrawn' }
    const isApplied = fate !== 'lost, not applied' && !(fate === 'lost for good' && run % 2)
    if (isApplied) {
      for (const [index, { row, calls, merged, state }] of runs.entries()) {
        const before = table.values.get(row.id) ?? 0
        const after = merged.kind === 'set' ? merged.to : before + merged.delta
        table.values.set(row.id, state === 'careful' ? (writes[index] ?? before) : after)
        for (const call of calls) {
          const isDone = !(call.dealt instanceof Error)
          table.effects.set(call, (table.effects.get(call) ?? 0) + Number(isDone))
        }
      }
    }
    await turnsLater(turns)
    if (fate === 'lost for good') return { kind: 'unknown', cause: fate }
    return isApplied ? { kind: 'committed' } : { kind: 'failed', cause: fate }
  }
  return { flush, close: async () => undefined }
}

function deferred() {
  let resolve: () => void = () => undefined
  const promise = new Promise<void>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}

async function turnsLater(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve))
}

const rows: Rows<number, ModelRow> = {
  known: (id) => (id % 2 ? { id, key: String(id) } : undefined),
  find: async (id) => ({ id, key: String(id) }),
  forget: () => undefined,
}

const requests = fc.array(
  fc.record({
    id: fc.nat({ max: 5 }),
    turns: fc.nat({ max: 10 }),
    operation: fc.oneof(
      {
        weight: 8,
        arbitrary: fc.integer({ min: -2, max: 9 }).map((delta): Operation => ({ kind: 'add', delta })),
      },
      {
        weight: 1,
        arbitrary: fc.constantFrom(MAX, -MAX).map((delta): Operation => ({ kind: 'add', delta })),
      },
      { weight: 1, arbitrary: fc.integer().map((to): Operation => ({ kind: 'set', to })) },
    ),
  }),
  { minLength: 1, maxLength: 60 },
)

it('tells every caller what happened, under random schedules and failures', async () => {
  const seen = new Map<string, number>()
  await fc.assert(
    fc.asyncProperty(requests, fates, async (asked, stream) => {
      const table: Table = { values: new Map(), locks: new Map(), effects: new Map(), sent: new Set() }
      const { change } = openGroupCommit<ModelRow>({
        openLane: () => modelLane(table, stream),
        timeoutMs: 10_000,
        maxPending: 1000,
        onFault: () => undefined,
        now: () => new Date(0),
      })
      const answers = await Promise.all(
        asked.map(async ({ id, turns, operation }) => {
          await turnsLater(turns)
          return change(rows, id, operation).then(
            (applied) => ({ id, operation, code: 'counted', ...applied }),
            ({ code }) => ({ id, operation, code: code as string }),
          )
        }),
      )
      const calls = [...table.sent]
      for (const { operation, code } of answers) {
        seen.set(code, (seen.get(code) ?? 0) + 1)
        // Every request has an operation object of its own.
        const effects = table.effects.get(calls.find((call) => call.operation === operation) as Call) ?? 0
        const possible: Record<string, number[]> = { counted: [1], OUTCOME_UNKNOWN: [0, 1] }
        expect(possible[code] ?? [0]).toContain(effects)
      }
      for (const [id, value] of table.values) expectHistory(answers, id, value)
    }),
    { numRuns: 1000 },
  )
  for (const code of ['counted', 'OUT_OF_RANGE', 'UNAVAILABLE', 'OUTCOME_UNKNOWN']) {
    expect([code, (seen.get(code) ?? 0) > 0]).toEqual([code, true])
  }
})

type Told = { id: number; operation: Operation; code: string; value?: number; previousValue?: number }

/** Without doubtful ones among them, the answers of a row follow from one another, from 0 to what it holds. */
function expectHistory(answers: Told[], id: number, value: number): void {
  const ofRow = answers.filter((answer) => answer.id === id)
  if (ofRow.some(({ code }) => code === 'OUTCOME_UNKNOWN' || code === 'UNAVAILABLE')) return
  const counted = ofRow.filter(({ code }) => code === 'counted')
  for (const { operation, value: to, previousValue = 0 } of counted) {
    expect(to).toBe(operation.kind === 'set' ? operation.to : previousValue + operation.delta)
  }
  // Each value that somebody started from is one that somebody arrived at, or the beginning or the end.
  const arrivals = [0, ...counted.map((answer) => answer.value)].toSorted()
  const departures = [value, ...counted.map((answer) => answer.previousValue)].toSorted()
  expect(departures).toEqual(arrivals)
}

it('sends what came in one turn of the event loop at its end, and gathers what comes while that is under way', async () => {
  const flushed: number[] = []
  let finish: () => void = () => undefined
  const { change } = openGroupCommit<ModelRow>({
    openLane: () => ({
      async flush({ runs, deal, mayCommit }) {
        flushed.push(runs.reduce((sum, { calls }) => sum + calls.length, 0))
        await new Promise<void>((resolve) => {
          finish = resolve
        })
        deal(runs.map(() => 0))
        mayCommit()
        return { kind: 'committed' }
      },
      close: async () => undefined,
    }),
    timeoutMs: 10_000,
    maxPending: 1000,
    onFault: () => undefined,
    now: () => new Date(0),
  })
  const callers = (count: number) =>
    Array.from({ length: count }, () => change(rows, 1, { kind: 'add', delta: 1 }))
  const first = callers(3)
  await turnsLater(1)
  expect(flushed).toEqual([3])
  const second = [...callers(2), ...callers(4)]
  await turnsLater(5)
  second.push(...callers(1))
  expect(flushed).toEqual([3])
  finish()
  expect((await Promise.all(first)).map(({ value }) => value)).toEqual([1, 2, 3])
  await turnsLater(1)
  expect(flushed).toEqual([3, 7])
  finish()
  expect((await Promise.all(second)).map(({ value }) => value)).toEqual([1, 2, 3, 4, 5, 6, 7])
})
