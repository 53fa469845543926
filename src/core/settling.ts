import { setTimeout as pause } from 'node:timers/promises'
import { type Batch, batchOf, type Care, isOf, runOf, touches } from './batch.ts'
import { type Applied, type Call, type Calls, doubtful } from './calls.ts'
import { dealBatch } from './dealingBatch.ts'
import { NthError } from './errors.ts'
import type { FlushBody, Lane, Outcome, Row, Unavailable } from './lane.ts'
import { isGone } from './runs.ts'

/** Why a row or claim failed that is to blame itself. */
export type Failure = Extract<Outcome, { kind: 'failed' }>

/** Told of a row or claim that failed, and of the calls that touch it. */
type OnCulprit<R extends Row> = (key: string, calls: readonly Call<R>[], failure: Failure) => void

interface MutableCare extends Care {
  careful: Set<string>
  told: Set<string>
}

export interface SettlingOptions<R extends Row> {
  calls: Calls<R>
  now: () => Date
  /** For how long an idempotency key stands for what was done, in milliseconds. */
  keyTtlMs: number
}

const SHORTEST_PAUSE_MS = 20
const LONGEST_PAUSE_MS = 200

/** Makes the functions that flush calls until none of them is open. */
export function openSettling<R extends Row>({ calls, now, keyTtlMs }: SettlingOptions<R>) {
  return { settle, probe }

  /**
   * Flushes calls until each is answered or elsewhere. Those whose own row or claim fails are handed to
   * `onCulprit` with its key. Returns whether something was committed.
   */
  async function settle(lane: Lane<R>, cut: readonly Call<R>[], onCulprit: OnCulprit<R>): Promise<boolean> {
    const at = now()
    const care: MutableCare = { careful: new Set(), told: new Set(), slots: new Map() }
    let open = cut
    let isImpatient = false
    for (let failures = 0; ; ) {
      open = calls.open(open)
      if (open.length === 0) return false
      let batch: Batch<R>
      try {
        batch = batchOf(open, care, at)
      } catch (error) {
        return settleApart(lane, open, error, onCulprit)
      }
      const outcome = await lane.flush({
        ...flushOf(batch, at, care.careful),
        isImpatient,
        without(keys) {
          open = withoutUnavailable(open, keys, onCulprit)
          batch = batchOf(open, care, at)
          return open.length > 0 ? flushOf(batch, at, care.careful) : undefined
        },
      })
      if (outcome.kind === 'committed') {
        for (const call of open) calls.answer(call, told(call))
        return true
      }
      if (outcome.kind === 'unknown') {
        const reason = 'The connection to the database ended before it answered'
        for (const call of open) calls.answer(call, doubtful(call, reason, outcome.cause))
        return false
      }
      for (const call of open) call.isCommitting = false
      if (outcome.kind === 'broken') return settleApart(lane, open, outcome.cause, onCulprit)
      if (outcome.kind === 'stale') {
        for (const call of open) seekAnew(call)
        return false
      }
      if (outcome.kind === 'withdrawn') {
        open = withoutGone(batch)
        continue
      }
      for (const call of open) call.obstacle = outcome.cause
      const { culprit, isFull, isLocked } = outcome
      isImpatient ||= isLocked === true
      if (isFull) open = withoutFull(batch, care.told)
      if (culprit !== undefined) {
        open = withoutCulprit(open, culprit, outcome, onCulprit)
      } else if (!isLocked) {
        await pause(Math.random() * Math.min(SHORTEST_PAUSE_MS * 2 ** failures++, LONGEST_PAUSE_MS))
      }
    }
  }

  /** Has the calls look again whose rows are gone, and hands over those whose rows are locked. Returns the others. */
  function withoutUnavailable(
    open: readonly Call<R>[],
    { locked, gone }: Unavailable,
    onCulprit: OnCulprit<R>,
  ): readonly Call<R>[] {
    let left = withoutThose(open, gone)
    const cause = new Error('Somebody holds a row of it locked')
    for (const key of locked) left = withoutCulprit(left, key, { kind: 'failed', cause }, onCulprit)
    return left
  }

  function withoutCulprit(
    open: readonly Call<R>[],
    key: string,
    failure: Failure,
    onCulprit: OnCulprit<R>,
  ): readonly Call<R>[] {
    const blamed = open.filter((call) => touches(call, key))
    onCulprit(key, blamed, failure)
    return open.filter((call) => !touches(call, key))
  }

  /**
   * Finds the call at fault for an exception, by halves, and fails it. What comes for the same row is tried apart from
   * then on, so that it doesn't hold up the others.
   */
  async function settleApart(
    lane: Lane<R>,
    open: readonly Call<R>[],
    cause: unknown,
    onCulprit: OnCulprit<R>,
  ): Promise<boolean> {
    const [call] = open
    if (call && open.length === 1) {
      calls.answer(call, cause instanceof Error ? cause : new Error(String(cause)))
      const [row] = call.rows
      if (row && call.rows.length === 1) onCulprit(row.key, [], { kind: 'failed', cause })
      return false
    }
    const half = Math.ceil(open.length / 2)
    const first = await settle(lane, open.slice(0, half), onCulprit)
    const second = await settle(lane, open.slice(half), onCulprit)
    return first || second
  }

  /** Tries whether a row or claim of a call can be had, and holds nothing else meanwhile. Returns why not. */
  async function probe(lane: Lane<R>, key: string, call: Call<R>): Promise<Failure | undefined> {
    const at = now()
    const index = call.rows.findIndex((row) => isOf(row, key))
    const row = call.rows[index]
    const run = row && runOf(call, index, row, { at, slots: new Map() })
    const outcome = await lane.flush({
      counters: run?.kind === 'counter' ? [{ ...run, merged: undefined }] : [],
      groups: run?.kind === 'group' ? [{ ...run, rise: undefined }] : [],
      claims: call.claim?.key === key ? [call.claim] : [],
      at,
      deal: () => false,
      mayCommit: () => false,
      isAwaited: () => false,
      isImpatient: false,
      without: () => undefined,
    })
    return outcome.kind === 'failed' && outcome.culprit === key ? outcome : undefined
  }

  /**
   * Has everything be looked at that was added without. Where it was, it is a definition that would bring too much
   * together. Returns the calls without those.
   */
  function withoutFull({ calls: all, counters }: Batch<R>, told: Set<string>): readonly Call<R>[] {
    const isLookedAt = counters.every(({ row }) => told.has(row.key))
    for (const { row } of counters) told.add(row.key)
    const isBlamed = ({ operations }: Call<R>) => isLookedAt && operations[0]?.kind === 'define'
    for (const call of all) if (isBlamed(call)) calls.answer(call, tooFull())
    return all.filter((call) => !isBlamed(call))
  }

  /** Has a call look for its rows as if it had none. */
  function seekAnew(call: Call<R>): void {
    call.rows = []
    call.seek(call)
  }

  /** Has the calls look again whose rows are gone. Returns the others. */
  function withoutGone({ calls: all, runs }: Batch<R>): readonly Call<R>[] {
    return withoutThose(
      all,
      runs.filter(isGone).map(({ row }) => row.key),
    )
  }

  function withoutThose(all: readonly Call<R>[], gone: readonly string[]): readonly Call<R>[] {
    if (gone.length === 0) return all
    const isBlamed = (call: Call<R>) => gone.some((key) => touches(call, key))
    for (const call of all) if (isBlamed(call)) call.seek(call)
    return all.filter((call) => !isBlamed(call))
  }

  function flushOf(batch: Batch<R>, at: Date, careful: Set<string>): FlushBody<R> {
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
      deal: (found) => dealBatch(batch, found, { at, careful, keyTtlMs }),
    }
  }
}

function tooFull(): NthError {
  const message =
    'What was added in a running period would be beyond what a number here can say; nothing was changed.'
  return new NthError('OUT_OF_RANGE', message)
}

function told<R extends Row>({ dealt }: Call<R>): Applied | Error {
  return dealt ?? new Error('A flush was committed without having been dealt')
}
