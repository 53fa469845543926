import { setTimeout as pause } from 'node:timers/promises'
import { backoffMs, CONFLICT, RETRY } from '../backoff.ts'
import { errorOf, isTooLarge, NthError } from '../errors.ts'
import { flushMeasure, retryMeasure } from '../measures.ts'
import { flushTrace, traced } from '../traces.ts'
import { applyBatch } from './applyBatch.ts'
import { type Batch, batchOf } from './batch.ts'
import { type Call, doubtful, openFlight } from './call.ts'
import type { PendingCalls } from './pendingCalls.ts'
import { openPrecautions, type Precautions } from './precautions.ts'
import type { Applied, NamedOperation } from './request.ts'
import type { Decision, Failure, Flush, Found, Writer } from './writer.ts'

export interface FlushOptions {
  now: () => Date
  /** A random number from 0 to below 1. */
  random: () => number
  /** How long idempotency keys are valid, in milliseconds. */
  keyTtlMs: number
}

/** What flushes work with, and where calls go that leave a flush without an answer. */
export interface FlushContext extends FlushOptions {
  pending: PendingCalls
  /** The rows of these calls are gone, or were read from another database. */
  resolveAgain(calls: readonly Call[]): void
  /** The row or claim of a key failed, which these calls touch. */
  quarantine(key: string, calls: readonly Call[], failure: Failure): void
  /** Called with the operations of each call that was committed. */
  onApplied(operations: readonly NamedOperation[]): void
  /** Whether the first attempt of a flush is optimistic. */
  isOptimistic: boolean
}

const LOCKED: Failure = {
  kind: 'failed',
  cause: new Error('Another session holds a lock on one of its rows'),
}

/** Flushes calls until each is answered or has left. Returns whether anything was committed. */
export function flushAll(writer: Writer, calls: readonly Call[], context: FlushContext): Promise<boolean> {
  const work = () => ({ requests: calls.map(({ request }) => request) })
  return traced(flushTrace, work, () => flushUntilAnswered(writer, calls, context))
}

async function flushUntilAnswered(writer: Writer, calls: readonly Call[], context: FlushContext) {
  const { pending, now, random, resolveAgain, quarantine, onApplied } = context
  const at = now()
  const began = performance.now()
  const precautions = openPrecautions(random)
  let isImpatient = false
  let failures = 0
  let { isOptimistic } = context
  for (let open = calls; ; isOptimistic = false) {
    pending.expire(open)
    open = open.filter((call) => !call.isAnswered)
    if (open.length === 0) return false
    const { outcome, batch, results } = await attempt(
      writer,
      open,
      { at, isImpatient, isOptimistic, precautions },
      context,
    )
    switch (outcome.kind) {
      case 'committed':
        for (const [call, result] of results) {
          onApplied(call.request.operations)
          call.settle(result)
        }
        flushMeasure.publish({ operations: operationsOf(batch), durationMs: performance.now() - began })
        return true
      case 'unknown': {
        const reason = 'The connection to the database ended before it answered'
        for (const call of open) call.settle(doubtful(call, reason, outcome.cause))
        return false
      }
      case 'broken':
        return flushApart(writer, open, outcome.cause, context)
      case 'stale':
        resolveAgain(open)
        return false
      case 'withdrawn': {
        const gone = [...batch.counters, ...batch.sequenceGroups].filter(({ isGone }) => isGone)
        const keys = gone.map(({ row }) => row.key)
        open = without(open, keys, resolveAgain)
        break
      }
      case 'unavailable':
        open = without(open, outcome.gone, resolveAgain)
        for (const key of outcome.locked)
          open = without(open, [key], (leaving) => quarantine(key, leaving, LOCKED))
        break
      case 'failed': {
        const { cause, failingKey, isFull, isLocked, isConflict } = outcome
        for (const call of open) call.obstacle = cause
        isImpatient ||= isLocked === true
        if (isFull) refuseDefinitions(batch)
        if (failingKey !== undefined)
          open = without(open, [failingKey], (leaving) => quarantine(failingKey, leaving, outcome))
        else if (!isLocked) {
          failures += 1
          await pause(random() * backoffMs(isConflict ? CONFLICT : RETRY, failures))
        }
      }
    }
    retryMeasure.publish(undefined)
  }
}

function operationsOf({ calls }: Batch): number {
  let count = 0
  for (const { operations } of calls) count += operations.length
  return count
}

/** Makes one attempt. Its `results` are what the callers get if it was committed. */
async function attempt(
  writer: Writer,
  calls: readonly Call[],
  form: Pick<Flush, 'at' | 'isImpatient' | 'isOptimistic'> & { precautions: Precautions },
  { pending, keyTtlMs }: FlushContext,
) {
  const { at, isImpatient, isOptimistic, precautions } = form
  const flight = openFlight(calls.length)
  for (const call of calls) call.flushIn(flight)
  let results = new Map<Call, Applied | NthError>()
  let batch: Batch = { calls: [], counters: [], sequenceGroups: [], claims: [] }
  try {
    batch = batchOf(calls, precautions, at)
  } catch (cause) {
    return { outcome: { kind: 'broken', cause } as const, batch, results }
  }
  const { counters, sequenceGroups, claims } = batch
  const { awaited } = flight
  // Not caught: COMMIT may have been sent.
  const flush = { counters, sequenceGroups, claims, at, isImpatient, isOptimistic, awaited, decide, commit }
  const outcome = await writer.flush(flush)
  if (outcome.kind !== 'committed' && outcome.kind !== 'unknown')
    for (const call of calls) call.flushIn(flight)
  return { outcome, batch, results }

  function decide(found: Found): Decision | 'withdraw' {
    const applied = applyBatch(batch, found, { at, precautions, keyTtlMs })
    if (applied === 'withdraw') return 'withdraw'
    results = applied.results
    return applied.decision
  }

  function commit(): boolean {
    pending.expire(calls)
    if (calls.some(({ isAnswered }) => isAnswered)) return false
    for (const call of calls) call.commit()
    return true
  }
}

/**
 * Bisects calls that are too large for one flush, or of which one causes an exception. Fails the single one, and
 * quarantines a row that caused an exception: it would delay others.
 */
async function flushApart(
  writer: Writer,
  calls: readonly Call[],
  cause: unknown,
  context: FlushContext,
): Promise<boolean> {
  const [call, ...others] = calls
  if (call && others.length === 0) {
    call.settle(errorOf(cause))
    if (isTooLarge(cause)) return false
    // The definition that was cached may be the cause.
    for (const named of call.request.operations) named.rows.forget(named.name)
    const [first, ...more] = call.operations
    if (first && more.length === 0) context.quarantine(first.row.key, [], { kind: 'failed', cause })
    return false
  }
  const half = Math.ceil(calls.length / 2)
  const first = await flushAll(writer, calls.slice(0, half), context)
  const second = await flushAll(writer, calls.slice(half), context)
  return first || second
}

/** Passes on the calls that touch one of some keys. Returns the others. */
function without(open: readonly Call[], keys: readonly string[], passOn: (leaving: Call[]) => void): Call[] {
  const isLeaving = (call: Call) => keys.some((key) => call.touches(key))
  const staying = open.filter((call) => !isLeaving(call))
  passOn(open.filter(isLeaving))
  return staying
}

/** Refuses the definitions of a batch, of which one would make the total of a running period too large. */
function refuseDefinitions({ calls }: Batch): void {
  const message = 'The total of a current period would leave the safe integer range; nothing was changed.'
  for (const { call, operations } of calls) {
    const isDefining = operations.some(({ operation }) => operation.kind === 'define')
    if (isDefining) call.settle(new NthError('OUT_OF_RANGE', message))
  }
}
