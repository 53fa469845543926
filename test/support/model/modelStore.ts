import fc from 'fast-check'
import {
  type Batch,
  type CounterWork,
  isCoalesced,
  type NotApplied,
  type Outcome,
  type Reading,
  SMALL_SUM,
  type Transaction,
  type Writer,
  type Writes,
} from '../../../src/commit/batch.ts'
import { doubtful } from '../../../src/commit/call.ts'
import { SYSTEM_CLOCK } from '../../../src/commit/clock.ts'
import { type GroupCommitOptions, openGroupCommit } from '../../../src/commit/groupCommit.ts'
import type { Database } from '../../../src/mysql/pool.ts'
import { SILENT } from '../../../src/operations/log.ts'
import type { RowCache } from '../../../src/repository/batches.ts'
import { openCounters } from '../../../src/repository/counters.ts'
import type { CounterKey, Definition } from '../../../src/rules/counter.ts'
import { unavailable } from '../../../src/rules/errors.ts'
import type { StoredResults } from '../../../src/rules/idempotency.ts'
import { type CounterRow, rowKey } from '../../../src/rules/rows.ts'
import { AMPLE_MS } from '../server/nth.ts'
import { PLAIN } from './plain.ts'

/** What happens to a flush, in the order of its trips. */
export type FlushOutcome =
  | 'committed'
  | 'conflict'
  | 'failingKey'
  | 'lost, applied'
  | 'lost, not applied'
  | 'lost for good'
  /** A caller's deadline passes, at any time. */
  | 'expires'

export interface Course {
  outcome: FlushOutcome
  ticks: number
  run: number
}

export const courses = fc.infiniteStream(
  fc.record({
    outcome: fc.oneof(
      { weight: 3, arbitrary: fc.constant<FlushOutcome>('committed') },
      {
        weight: 1,
        arbitrary: fc.constantFrom<FlushOutcome>(
          'conflict',
          'failingKey',
          'failingKey',
          'failingKey',
          'lost, applied',
          'lost, not applied',
          'lost for good',
          'expires',
        ),
      },
    ),
    ticks: fc.nat({ max: 3 }),
    run: fc.nat(),
  }),
)

export interface ModelRow extends CounterRow {
  name: string
}

/** A row as it is stored. */
export interface Stored {
  id: number
  version: number
  value: number
  added: number
  definition: Definition
  /** Whether it was ever written or defined. */
  isWritten: boolean
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
export function modelRows(table: Table): RowCache<CounterKey, CounterRow> {
  const known = new Map<string, ModelRow>()

  function find({ name }: CounterKey): ModelRow {
    const stored = table.rows.get(name) ?? {
      id: ++table.ids,
      version: 1,
      value: 0,
      added: 0,
      definition: TRACKED,
      isWritten: false,
    }
    table.rows.set(name, stored)
    const { id, version, definition } = stored
    const own = {
      kind: 'counter',
      namespaceId: 1,
      incarnation: 0,
      changedAt: 0,
      salt: undefined,
      forgottenSecond: 0,
    } as const
    const row: ModelRow = { ...own, name, id, version, definition }
    known.set(name, row)
    return row
  }

  return {
    cached: ({ name }) => known.get(name),
    load: async (key) => find(key),
    loadOrCreate: async (key) => find(key),
    forget: ({ name }) => void known.delete(name),
    incarnation: 0,
    peek: () => undefined,
    add: (_, row) => row,
  }
}

/** A writer whose flushes go as the stream says. */
export function modelWriter(table: Table, stream: Iterator<Course>): Writer {
  return {
    begin: async (batch) => new ModelTransaction(table, stream.next().value, batch),
    close: async () => undefined,
  }
}

class ModelTransaction implements Transaction {
  readonly kind = 'transaction'
  isCommitSent = false
  readonly #table: Table
  readonly #course: Course
  readonly #batch: Batch
  readonly #end = deferred()
  #stored = new Map<CounterWork, Stored>()
  #writes: Writes | undefined

  constructor(table: Table, course: Course, batch: Batch) {
    this.#table = table
    this.#course = course
    this.#batch = batch
  }

  /** As a database does: keys and rows are locked one after another, in one order, until the transaction ends. */
  async #lock(): Promise<void> {
    const { claims, counters } = this.#batch
    const { locks } = this.#table
    const keys = claims.map(({ hash }) => hash).toSorted()
    const names = [...new Set(counters.map((work) => `row ${rowIn(work).name}`))].toSorted()
    for (const place of [...keys, ...names]) {
      const before = locks.get(place)
      locks.set(place, this.#end.promise)
      await before
    }
    this.#stored = new Map(
      counters.flatMap((work) => {
        const { id, version, name } = rowIn(work)
        const row = this.#table.rows.get(name)
        return row?.id === id && row.version === version ? [[work, row] as const] : []
      }),
    )
  }

  /** Sometimes: that of one trip is known only once it is locked. */
  get fitsOneTrip(): boolean {
    const { counters, claims, approach } = this.#batch
    if (approach.kind !== 'quick') return false
    return this.#course.run % 2 === 0 && claims.length === 0 && counters.every(isCoalesced)
  }

  async #fail(): Promise<NotApplied | undefined> {
    const { counters } = this.#batch
    const { outcome, ticks, run } = this.#course
    await ticksLater(ticks)
    if (outcome === 'conflict') return { kind: 'conflict', cause: outcome }
    if (outcome !== 'failingKey') return undefined
    const row = counters[run % counters.length]?.row
    if (run % 3 === 0 && row) return { kind: 'notLocked', locked: [rowKey(row)], gone: [] }
    return { kind: run % 3 === 1 ? 'fault' : 'locked', cause: outcome }
  }

  /** As at its deadline: the call is answered by where it is then. */
  async #expire(): Promise<void> {
    const { outcome, ticks, run } = this.#course
    const call = this.#batch.calls[run % this.#batch.calls.length]
    if (outcome !== 'expires' || !call) return
    await ticksLater((run % 3) + ticks)
    call.settle(
      call.isCommitting ? doubtful(call, 'It has expired', outcome) : unavailable('It has expired.'),
    )
  }

  async read(): Promise<Reading | NotApplied> {
    await this.#lock()
    void this.#expire()
    const failure = await this.#fail()
    if (failure) this.#end.resolve()
    if (failure) return failure
    await ticksLater(this.#course.ticks)
    return this.#reading()
  }

  #reading(): Reading {
    const counters = [...this.#stored].map(([work, { value, added, isWritten }]) => {
      const isAdded = isMade(work, added)
      const running = { period: 'DAY', start: 0 } as const
      const columns = { ...running, added: BigInt(added) }
      const isRead = !isAdded || work.wantsPeriodValues
      const periods = isRead ? [{ ...running, columns, inHistory: 0n, elsewhere: 0n }] : undefined
      return [work, { value, isAdded, periods, revision: undefined, now: 0, isNew: !isWritten }] as const
    })
    const earlier = this.#batch.claims.flatMap(({ hash }) => {
      const stored = this.#table.keys.get(hash)
      return stored ? { ...stored, ageMs: 0 } : []
    })
    return { kind: 'read', counters: new Map(counters), sequenceGroups: new Map(), earlier }
  }

  write(writes: Writes): void {
    this.#writes = writes
  }

  async commit(): Promise<Outcome> {
    this.isCommitSent = true
    return this.fitsOneTrip ? this.#commitAtOnce() : this.#commit()
  }

  async #commitAtOnce(): Promise<Outcome> {
    await this.#lock()
    const failure = await this.#fail()
    const isFit = this.#batch.counters.every((work) => isMade(work, this.#stored.get(work)?.added))
    if (failure || !isFit) this.#end.resolve()
    if (failure) return failure
    if (!isFit) return { kind: 'unfit' }
    const reading = this.#reading()
    const outcome = await this.#commit()
    return outcome.kind === 'committed' ? { kind: 'committed', reading } : outcome
  }

  async #commit(): Promise<Outcome> {
    const { outcome, ticks, run } = this.#course
    const isApplied = outcome !== 'lost, not applied' && !(outcome === 'lost for good' && run % 2)
    if (isApplied) this.#apply()
    await ticksLater(ticks)
    this.#end.resolve()
    if (outcome === 'lost for good') return { kind: 'unknown', cause: outcome }
    return isApplied ? { kind: 'committed' } : { kind: 'lost', cause: outcome }
  }

  #apply(): void {
    const { rows, keys } = this.#table
    const writes = new Map(this.#writes?.counters.map(({ work, after }) => [work, after]))
    for (const [work, before] of this.#stored) {
      const { name } = rowIn(work)
      const after = writes.get(work)
      if (after?.isDeleted) {
        rows.delete(name)
      } else if (after) {
        const { value, definition, isDefined } = after
        // Exact, as in the database: a sum of additions may leave the safe range.
        const added = Number(BigInt(before.added) + after.added)
        const version = isDefined ? before.version + 1 : before.version
        rows.set(name, { ...before, value, added, version, definition, isWritten: true })
      } else if (isCoalesced(work) && isMade(work, before.added)) {
        const { sum } = work.path
        const [value, added] = [before.value + sum, before.added + sum]
        rows.set(name, { ...before, value, added, isWritten: true })
      }
    }
    for (const one of this.#writes?.toStore ?? []) keys.set(one.claim.hash, one)
  }

  async rollBack(): Promise<void> {
    this.#end.resolve()
  }
}

/** Whether a counter's addition is made where its total is `added`; undefined: it doesn't exist. */
function isMade(work: CounterWork, added = Number.MAX_SAFE_INTEGER): boolean {
  return isCoalesced(work) && Math.abs(added) <= Number.MAX_SAFE_INTEGER - SMALL_SUM
}

export function rowIn({ row }: CounterWork): ModelRow {
  // All rows come from `modelRows`.
  return row as ModelRow
}

export function deferred() {
  let resolve: () => void = () => undefined
  const promise = new Promise<void>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}

export async function ticksLater(ticks: number): Promise<void> {
  for (let tick = 0; tick < ticks; tick++) await new Promise((resolve) => setImmediate(resolve))
}

export function openModel(
  openWriter: () => Writer,
  rows: RowCache<CounterKey, CounterRow>,
  options: Partial<GroupCommitOptions> = {},
) {
  const groupCommit = openGroupCommit({
    openWriter,
    timeoutMs: AMPLE_MS,
    maxPending: 1000,
    keyTtlMs: 1,
    clock: SYSTEM_CLOCK,
    notices: SILENT,
    onApplied: () => undefined,
    now: () => new Date(0),
    random: () => 0,
    ...options,
  })
  return openCounters({
    // Nothing is read.
    database: { deadline: () => performance.now() + AMPLE_MS } as Database,
    rows,
    groupCommit,
    retentionIn: async () => PLAIN,
    now: () => new Date(0),
  })
}
