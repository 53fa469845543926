import fc from 'fast-check'
import { openCounters } from '../../src/core/counters/counters.ts'
import type { Definition } from '../../src/core/counters/definition.ts'
import type { CounterKey } from '../../src/core/counters/state.ts'
import type { CounterStore } from '../../src/core/counters/store.ts'
import { type CounterRun, SMALL_SUM } from '../../src/core/groupCommit/counterRun.ts'
import { type GroupCommitOptions, openGroupCommit } from '../../src/core/groupCommit/groupCommit.ts'
import type { Flush, Outcome, Writer } from '../../src/core/groupCommit/writer.ts'
import type { StoredResults } from '../../src/core/idempotency.ts'
import type { CounterRow } from '../../src/core/rows.ts'
import { AMPLE_MS } from './nth.ts'
import { PLAIN } from './plain.ts'

/** How a flush goes: what its writer meets, in the order of its trips. */
export type Fate =
  | 'committed'
  | 'conflict'
  | 'failingKey'
  | 'lost, applied'
  | 'lost, not applied'
  | 'lost for good'

export interface Course {
  fate: Fate
  turns: number
  run: number
}

export const courses = fc.infiniteStream(
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

export interface ModelRow extends CounterRow {
  name: string
  id: number
  version: number
}

/** A row as it is stored. */
export interface Stored {
  id: number
  version: number
  value: number
  added: number
  definition: Definition
}

export const TRACKED: Definition = { ...PLAIN, periods: [{ period: 'DAY', keepDays: null, since: null }] }

export interface Table {
  rows: Map<string, Stored>
  keys: Map<string, StoredResults>
  /** The last transaction on each row and key. */
  locks: Map<string, Promise<void>>
  ids: number
}

export function emptyTable(): Table {
  return { rows: new Map(), keys: new Map(), locks: new Map(), ids: 0 }
}

/** Counters in memory. What is known of a row may be old, as where another process has defined it anew. */
export function modelStore(table: Table): CounterStore {
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
export function modelWriter(table: Table, stream: Iterator<Course>): Writer {
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
    const { counters: runs, claims, decide, commit } = flush
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
    // In one trip, nothing is decided before COMMIT.
    const isOneTrip =
      flush.isOptimistic &&
      run % 2 === 0 &&
      claims.length === 0 &&
      runs.every((run) => {
        const added = stored.get(run)?.added ?? Number.MAX_SAFE_INTEGER
        return run.addition !== undefined && Math.abs(added) <= Number.MAX_SAFE_INTEGER - SMALL_SUM
      })
    if (isOneTrip) {
      if (!commit()) return { kind: 'withdrawn' }
      await turnsLater(turns)
    }
    const decision = decide({
      counters: new Map(
        [...stored].map(([run, { value, added }]) => {
          const isAdded = run.addition !== undefined && Math.abs(added) <= Number.MAX_SAFE_INTEGER - SMALL_SUM
          const running = { period: 'DAY', start: 0 } as const
          const columns = { ...running, added: BigInt(added) }
          const isRead = !isAdded || run.wantsPeriodValues
          const periods = isRead ? [{ ...running, columns, inHistory: 0n, elsewhere: 0n }] : undefined
          return [run, { value, isAdded, periods, revision: undefined, now: 0 }]
        }),
      ),
      sequenceGroups: new Map(),
      earlier: claims.flatMap(({ key }) => {
        const earlier = table.keys.get(key)
        return earlier ? { ...earlier, ageMs: 0 } : []
      }),
    })
    if (isOneTrip && decision === 'withdraw') throw new Error('The operations do not confirm their additions')
    if (decision === 'withdraw' || !(isOneTrip || commit())) return { kind: 'withdrawn' }
    const isApplied = fate !== 'lost, not applied' && !(fate === 'lost for good' && run % 2)
    if (isApplied) {
      const writes = new Map(decision.counters.map(({ run, write }) => [run, write]))
      for (const [run, before] of stored) {
        const { name } = rowIn(run)
        const { addition } = run
        const write = writes.get(run)
        if (write === 'deleted') {
          table.rows.delete(name)
        } else if (write) {
          const { value, columns, definition = before.definition } = write
          // Exact, as in the database: a sum of additions may leave the safe range.
          const added = Number(columns.reduce((sum, one) => sum + one.added, BigInt(before.added)))
          const version = definition === before.definition ? before.version : before.version + 1
          table.rows.set(name, { ...before, value, added, version, definition })
        } else if (addition !== undefined) {
          table.rows.set(name, { ...before, value: before.value + addition, added: before.added + addition })
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

export function rowIn({ row }: CounterRun): ModelRow {
  // All rows come from `modelStore`.
  return row as ModelRow
}

export function deferred() {
  let resolve: () => void = () => undefined
  const promise = new Promise<void>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}

export async function turnsLater(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve))
}

export function openModel(
  openWriter: () => Writer,
  store: CounterStore,
  options: Partial<GroupCommitOptions> = {},
) {
  const groupCommit = openGroupCommit({
    openWriter,
    timeoutMs: AMPLE_MS,
    maxPending: 1000,
    keyTtlMs: 1,
    onFault: () => undefined,
    onApplied: () => undefined,
    now: () => new Date(0),
    random: () => 0,
    ...options,
  })
  const deadline = () => performance.now() + AMPLE_MS
  return openCounters({
    store,
    groupCommit,
    retentionIn: async () => PLAIN,
    now: () => new Date(0),
    deadline,
  })
}
