import fc from 'fast-check'
import { expect, it } from 'vitest'
import { openCounters } from '../src/core/counters/counters.ts'
import type { Definition } from '../src/core/counters/definition.ts'
import type { CounterKey } from '../src/core/counters/state.ts'
import type { CounterStore } from '../src/core/counters/store.ts'
import { type CounterRun, SMALL_SUM } from '../src/core/groupCommit/counterRun.ts'
import { type GroupCommitOptions, openGroupCommit } from '../src/core/groupCommit/groupCommit.ts'
import type { Flush, Outcome, Writer } from '../src/core/groupCommit/writer.ts'
import type { StoredResults } from '../src/core/idempotency.ts'
import type { CounterRow } from '../src/core/rows.ts'
import { operations, witness } from './support/asking.ts'
import { isExplained } from './support/history.ts'
import { emptyState, rowOf } from './support/model.ts'
import { PLAIN } from './support/plain.ts'

/** How a flush goes: what its writer meets, in the order of its trips. */
type Fate = 'committed' | 'conflict' | 'failingKey' | 'lost, applied' | 'lost, not applied' | 'lost for good'

interface Course {
  fate: Fate
  turns: number
  run: number
}

const courses = fc.infiniteStream(
  fc.record({
    fate: fc.oneof(
      { weight: 3, arbitrary: fc.constant<Fate>('committed') },
      {
        weight: 1,
        arbitrary: fc.constantFrom<Fate>(
          'conflict',
          'failingKey',
          'failingKey',
          'failingKey',
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

interface ModelRow extends CounterRow {
  name: string
  id: number
  version: number
}

/** A row as it is stored. */
interface Stored {
  id: number
  version: number
  value: number
  added: number
  definition: Definition
}

const TRACKED: Definition = { ...PLAIN, periods: [{ period: 'DAY', keepDays: null, since: null }] }

interface Table {
  rows: Map<string, Stored>
  keys: Map<string, StoredResults>
  /** The last transaction on each row and key. */
  locks: Map<string, Promise<void>>
  ids: number
}

function emptyTable(): Table {
  return { rows: new Map(), keys: new Map(), locks: new Map(), ids: 0 }
}

/** Counters in memory. What is known of a row may be old, as where another process has defined it anew. */
function modelStore(table: Table): CounterStore {
  const known = new Map<string, ModelRow>()

  function find({ name }: CounterKey): ModelRow {
    const stored = table.rows.get(name) ?? {
      id: ++table.ids,
      version: 1,
      value: 0,
      added: 0,
      definition: TRACKED,
    }
    table.rows.set(name, stored)
    const { id, version, definition } = stored
    const row: ModelRow = { kind: 'counter', key: `${id} ${version}`, name, id, version, definition }
    known.set(name, row)
    return row
  }

  return {
    rows: {
      cached: ({ name }) => known.get(name),
      load: async (key) => find(key),
      loadOrCreate: async (key) => find(key),
      forget: ({ name }) => void known.delete(name),
    },
    read: async () => [],
    list: async () => [],
    listLeaderboard: async () => [],
    readHistory: async () => [],
  }
}

/** A writer whose flushes go as the stream says. */
function modelLane(table: Table, stream: Iterator<Course>): Writer {
  async function flush(flush: Flush): Promise<Outcome> {
    const { promise: ended, resolve: unlock } = deferred()
    // As a database does: keys and rows are locked one after another, in one order, until the transaction ends.
    const keys = flush.claims.map(({ key }) => key).toSorted()
    const names = [...new Set(flush.counters.map((run) => `row ${rowIn(run).name}`))].toSorted()
    for (const place of [...keys, ...names]) {
      const before = table.locks.get(place)
      table.locks.set(place, ended)
      await before
    }
    const outcome = await transact(flush)
    unlock()
    return outcome
  }

  async function transact(flush: Flush): Promise<Outcome> {
    const { counters: runs, claims, decide } = flush
    const { fate, turns, run } = stream.next().value
    await turnsLater(turns)
    if (fate === 'conflict') return { kind: 'failed', cause: fate }
    if (fate === 'failingKey') {
      const places = [...claims.map(({ key }) => key), ...runs.map(({ row }) => row.key)]
      return {
        kind: 'failed',
        cause: fate,
        failingKey: String(places[run % places.length]),
        isFault: run % 2 === 0,
      }
    }
    await turnsLater(turns)
    const stored = new Map(
      runs.flatMap((run) => {
        const { id, version, name } = rowIn(run)
        const row = table.rows.get(name)
        return row?.id === id && row.version === version ? [[run, row] as const] : []
      }),
    )
    const decision = decide({
      counters: new Map(
        [...stored].map(([run, { value, added }]) => {
          const periodTotals = run.wantsPeriodValues ? [added] : undefined
          return [run, { value, periodTotals, revision: undefined }]
        }),
      ),
      sequenceGroups: new Map(),
      earlier: claims.flatMap(({ key }) => {
        const earlier = table.keys.get(key)
        return earlier ? { ...earlier, ageMs: 0 } : []
      }),
    })
    if (decision === 'withdraw') return { kind: 'withdrawn' }
    const sumOf = (run: CounterRun) => Number(BigInt(stored.get(run)?.added ?? 0) + run.added)
    const end = Number.MAX_SAFE_INTEGER - SMALL_SUM
    if (runs.some((run) => !run.wantsPeriodValues && Math.abs(sumOf(run)) > end))
      return { kind: 'failed', cause: fate, isFull: true }
    const isApplied = fate !== 'lost, not applied' && !(fate === 'lost for good' && run % 2)
    if (isApplied) {
      const writes = new Map(decision.counters.map(({ run, write }) => [run, write]))
      for (const [run, before] of stored) {
        const { name } = rowIn(run)
        const { coalesced } = run
        const write = writes.get(run)
        const added = sumOf(run)
        if (write === 'deleted') {
          table.rows.delete(name)
        } else if (write) {
          const { value, definition = before.definition } = write
          const version = definition === before.definition ? before.version : before.version + 1
          table.rows.set(name, { ...before, value, added, version, definition })
        } else if (coalesced) {
          const value = coalesced.kind === 'set' ? coalesced.to : before.value + coalesced.delta
          table.rows.set(name, { ...before, value, added })
        }
      }
      for (const one of decision.toStore) table.keys.set(one.claim.key, one)
    }
    await turnsLater(turns)
    if (fate === 'lost for good') return { kind: 'unknown', cause: fate }
    return isApplied ? { kind: 'committed' } : { kind: 'failed', cause: fate }
  }
  return { flush, close: async () => undefined }
}

function rowIn({ row }: CounterRun): ModelRow {
  // All rows come from `modelStore`.
  return row as ModelRow
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

function openModel(openWriter: () => Writer, store: CounterStore, options: Partial<GroupCommitOptions> = {}) {
  const groupCommit = openGroupCommit({
    openWriter,
    timeoutMs: 10_000,
    maxPending: 1000,
    keyTtlMs: 1,
    onFault: () => undefined,
    now: () => new Date(0),
    random: () => 0,
    ...options,
  })
  const deadline = () => performance.now() + 10_000
  return openCounters({
    store,
    groupCommit,
    retentionIn: async () => PLAIN,
    now: () => new Date(0),
    deadline,
  })
}

const requests = fc.array(
  fc.record({ turns: fc.nat({ max: 10 }), operation: operations, process: fc.nat({ max: 1 }) }),
  {
    minLength: 1,
    maxLength: 40,
  },
)

it('tells every caller what happened, under random schedules and failures, in two processes', async () => {
  const seen = new Map<string, number>()
  await fc.assert(
    fc.asyncProperty(requests, courses, async (asked, stream) => {
      const table = emptyTable()
      const processes = [1, 2].map(() => openModel(() => modelLane(table, stream), modelStore(table)))
      let clock = 0
      const told = await Promise.all(
        asked.map(async ({ turns, operation, process }) => {
          await turnsLater(turns)
          const counters = processes[process]
          if (!counters) throw new Error('There are two')
          return witness(counters, operation, () => ++clock)
        }),
      )
      for (const { outcome } of told) {
        const what = 'code' in outcome ? outcome.code : outcome.isReplayed ? 'replayed' : 'done'
        seen.set(what, (seen.get(what) ?? 0) + 1)
      }
      const events = told.flatMap(({ event }) => event ?? [])
      const isFound = ({ rows }: typeof emptyState) =>
        ['a', 'b', 'c'].every((name) => {
          const { value, added } = table.rows.get(name) ?? { value: 0, added: 0 }
          return rowOf(rows, name).value === value && rowOf(rows, name).added === added
        })
      expect(isExplained(events, emptyState, isFound)).toBe(true)
    }),
    { numRuns: 1000 },
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
  for (const what of outcomes) expect([what, (seen.get(what) ?? 0) > 0]).toEqual([what, true])
})

it('sends what came in one turn of the event loop at its end, and gathers what comes while that is under way', async () => {
  const flushed: number[] = []
  let finish: () => void = () => undefined
  const writer: Writer = {
    async flush({ counters: runs, decide }) {
      flushed.push(
        runs.reduce((sum, { coalesced }) => sum + (coalesced?.kind === 'add' ? coalesced.delta : 0), 0),
      )
      await new Promise<void>((resolve) => {
        finish = resolve
      })
      const found = { value: 0, periodTotals: undefined, revision: undefined }
      decide({ counters: new Map(runs.map((run) => [run, found])), sequenceGroups: new Map(), earlier: [] })
      return { kind: 'committed' }
    },
    close: async () => undefined,
  }
  const store = modelStore(emptyTable())
  const { incrementBy } = openModel(() => writer, store)
  const key = { namespace: 'n', name: 'c' }
  await store.rows.load(key)
  const callers = (count: number) => Array.from({ length: count }, () => incrementBy(key, 1))
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

it('does not send again what may be committed, when a writer fails in a way that it must not', async () => {
  let flushes = 0
  const faults: unknown[] = []
  const broken = new Error('broken')
  const writer: Writer = {
    async flush({ counters: runs, decide }) {
      flushes += 1
      const found = { value: 0, periodTotals: undefined, revision: undefined }
      decide({ counters: new Map(runs.map((run) => [run, found])), sequenceGroups: new Map(), earlier: [] })
      throw broken
    },
    close: async () => undefined,
  }
  const { incrementBy } = openModel(() => writer, modelStore(emptyTable()), {
    onFault: (fault) => faults.push(fault),
  })
  const key = { namespace: 'n', name: 'c' }
  await expect(incrementBy(key, 1)).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN', cause: broken })
  expect([flushes, faults]).toEqual([1, [broken]])
})
