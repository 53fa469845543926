import { setTimeout as pause } from 'node:timers/promises'
import { NthError } from '../errors.ts'
import type { Row } from '../rows.ts'
import { applyBatch } from './applyBatch.ts'
import { isGone } from './applyCall.ts'
import { type Batch, batchOf, type Care, isOf, runOf, touches } from './batch.ts'
import { type Applied, type Call, type Calls, doubtful } from './pendingCalls.ts'
import type { FlushBody, Outcome, Unavailable, Writer } from './writer.ts'

/** A failure that one row or claim caused. */
export type Failure = Extract<Outcome, { kind: 'failed' }>

/** Called with the key of a row or claim that failed, and the calls that touch it. */
type OnFailingKey<R extends Row> = (key: string, calls: readonly Call<R>[], failure: Failure) => void

interface MutableCare extends Care {
  lockedPath: Set<string>
  withPeriodTotals: Set<string>
}

export interface FlushLoopOptions<R extends Row> {
  calls: Calls<R>
  now: () => Date
  /** How long idempotency keys are valid, in milliseconds. */
  keyTtlMs: number
}

const SHORTEST_PAUSE_MS = 20
const LONGEST_PAUSE_MS = 200

/** Flushes calls again until none of them is open. */
export function openFlushLoop<R extends Row>({ calls, now, keyTtlMs }: FlushLoopOptions<R>) {
  return { flushAll, probe }

  /**
   * Flushes calls until each is answered, quarantined, or resolves its rows again. Calls whose own row or claim fails are
   * passed to `onFailingKey`. Returns whether anything was committed.
   */
  async function flushAll(
    writer: Writer<R>,
    cut: readonly Call<R>[],
    onFailingKey: OnFailingKey<R>,
  ): Promise<boolean> {
    const at = now()
    const care: MutableCare = { lockedPath: new Set(), withPeriodTotals: new Set(), slots: new Map() }
    let open = cut
    let isImpatient = false
    for (let failures = 0; ; ) {
      open = calls.open(open)
      if (open.length === 0) return false
      let batch: Batch<R>
      try {
        batch = batchOf(open, care, at)
      } catch (error) {
        return flushApart(writer, open, error, onFailingKey)
      }
      const outcome = await writer.flush({
        ...flushOf(batch, at, care.lockedPath),
        isImpatient,
        without(keys) {
          open = withoutUnavailable(open, keys, onFailingKey)
          batch = batchOf(open, care, at)
          return open.length > 0 ? flushOf(batch, at, care.lockedPath) : undefined
        },
      })
      if (outcome.kind === 'committed') {
        for (const call of open) calls.answer(call, resultOf(call))
        return true
      }
      if (outcome.kind === 'unknown') {
        const reason = 'The connection to the database ended before it answered'
        for (const call of open) calls.answer(call, doubtful(call, reason, outcome.cause))
        return false
      }
      for (const call of open) call.isCommitting = false
      if (outcome.kind === 'broken') return flushApart(writer, open, outcome.cause, onFailingKey)
      if (outcome.kind === 'stale') {
        for (const call of open) resolveAgain(call)
        return false
      }
      if (outcome.kind === 'withdrawn') {
        open = withoutGone(batch)
        continue
      }
      for (const call of open) call.obstacle = outcome.cause
      const { failingKey, isFull, isLocked } = outcome
      isImpatient ||= isLocked === true
      if (isFull) open = withoutFull(batch, care.withPeriodTotals)
      if (failingKey !== undefined) {
        open = withoutFailingKey(open, failingKey, outcome, onFailingKey)
      } else if (!isLocked) {
        await pause(Math.random() * Math.min(SHORTEST_PAUSE_MS * 2 ** failures++, LONGEST_PAUSE_MS))
      }
    }
  }

  /** Calls whose rows are gone resolve them again; those whose rows are locked are passed on. Returns the others. */
  function withoutUnavailable(
    open: readonly Call<R>[],
    { locked, gone }: Unavailable,
    onFailingKey: OnFailingKey<R>,
  ): readonly Call<R>[] {
    let left = withoutThose(open, gone)
    const cause = new Error('Another session holds a lock on one of its rows')
    for (const key of locked) left = withoutFailingKey(left, key, { kind: 'failed', cause }, onFailingKey)
    return left
  }

  function withoutFailingKey(
    open: readonly Call<R>[],
    key: string,
    failure: Failure,
    onFailingKey: OnFailingKey<R>,
  ): readonly Call<R>[] {
    const blamed = open.filter((call) => touches(call, key))
    onFailingKey(key, blamed, failure)
    return open.filter((call) => !touches(call, key))
  }

  /**
   * Bisects the calls to find the one that causes an exception, and fails it. Its row is quarantined, so that later calls
   * to it don't delay the others.
   */
  async function flushApart(
    writer: Writer<R>,
    open: readonly Call<R>[],
    cause: unknown,
    onFailingKey: OnFailingKey<R>,
  ): Promise<boolean> {
    const [call] = open
    if (call && open.length === 1) {
      calls.answer(call, cause instanceof Error ? cause : new Error(String(cause)))
      const [row] = call.rows
      if (row && call.rows.length === 1) onFailingKey(row.key, [], { kind: 'failed', cause })
      return false
    }
    const half = Math.ceil(open.length / 2)
    const first = await flushAll(writer, open.slice(0, half), onFailingKey)
    const second = await flushAll(writer, open.slice(half), onFailingKey)
    return first || second
  }

  /** Tries to lock one row or claim of a call, and holds nothing else meanwhile. Returns the failure. */
  async function probe(writer: Writer<R>, key: string, call: Call<R>): Promise<Failure | undefined> {
    const at = now()
    const index = call.rows.findIndex((row) => isOf(row, key))
    const row = call.rows[index]
    const run = row && runOf(call, index, row, { at, slots: new Map() })
    const outcome = await writer.flush({
      counters: run?.kind === 'counter' ? [{ ...run, coalesced: undefined }] : [],
      groups: run?.kind === 'group' ? [{ ...run, rise: undefined }] : [],
      claims: call.claim?.key === key ? [call.claim] : [],
      at,
      decide: () => false,
      mayCommit: () => false,
      isAwaited: () => false,
      isImpatient: false,
      without: () => undefined,
    })
    return outcome.kind === 'failed' && outcome.failingKey === key ? outcome : undefined
  }

  /**
   * Makes the next attempt read the period totals, which this one changed without reading. If they were read, a
   * definition would make a total too large: those calls are refused. Returns the others.
   */
  function withoutFull(
    { calls: all, counters }: Batch<R>,
    withPeriodTotals: Set<string>,
  ): readonly Call<R>[] {
    const wereRead = counters.every(({ row }) => withPeriodTotals.has(row.key))
    for (const { row } of counters) withPeriodTotals.add(row.key)
    const isBlamed = ({ operations }: Call<R>) => wereRead && operations[0]?.kind === 'define'
    for (const call of all) if (isBlamed(call)) calls.answer(call, tooFull())
    return all.filter((call) => !isBlamed(call))
  }

  /** Resolves a call's rows again, as if it had none. */
  function resolveAgain(call: Call<R>): void {
    call.rows = []
    call.resolveRows(call)
  }

  /** Calls whose rows are gone resolve them again. Returns the others. */
  function withoutGone({ calls: all, runs }: Batch<R>): readonly Call<R>[] {
    return withoutThose(
      all,
      runs.filter(isGone).map(({ row }) => row.key),
    )
  }

  function withoutThose(all: readonly Call<R>[], gone: readonly string[]): readonly Call<R>[] {
    if (gone.length === 0) return all
    const isBlamed = (call: Call<R>) => gone.some((key) => touches(call, key))
    for (const call of all) if (isBlamed(call)) call.resolveRows(call)
    return all.filter((call) => !isBlamed(call))
  }

  function flushOf(batch: Batch<R>, at: Date, lockedPath: Set<string>): FlushBody<R> {
    const { calls: all, counters, groups, claims } = batch
    return {
      counters,
      groups,
      claims,
      at,
      isAwaited: () => calls.open(all).length > 0,
      mayCommit() {
        if (calls.open(all) !== all) return false
        for (const call of all) call.isCommitting = true
        return true
      },
      decide: (found) => applyBatch(batch, found, { at, lockedPath, keyTtlMs }),
    }
  }
}

function tooFull(): NthError {
  const message = 'The total of a current period would leave the safe integer range; nothing was changed.'
  return new NthError('OUT_OF_RANGE', message)
}

function resultOf<R extends Row>({ result }: Call<R>): Applied | Error {
  return result ?? new Error('A flush was committed without a result')
}
