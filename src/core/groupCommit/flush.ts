import { setTimeout as pause } from 'node:timers/promises'
import { backoffMs, CONFLICT, RETRY } from '../backoff.ts'
import { assertInvariant, errorOf, isTooLarge, NthError } from '../errors.ts'
import { flushMeasure, retryMeasure } from '../measures.ts'
import { isOf, type Row } from '../rows.ts'
import { flushTrace, traced } from '../traces.ts'
import {
  type Batch,
  type BatchOptions,
  batchOf,
  onLockedPath,
  openPrecautions,
  type Precautions,
} from './batch.ts'
import { type Call, doubtful, type PendingCalls } from './call.ts'
import { type Decision, decide } from './decide.ts'
import type { Applied, NamedOperation } from './request.ts'
import type { Outcome, Transaction, Writer } from './writer.ts'

export interface FlushOptions extends Pick<BatchOptions, 'random'> {
  now: () => Date
  /** How long idempotency keys are valid, in milliseconds. */
  keyTtlMs: number
}

/** Why a key is quarantined. A fault is final: its calls can only be refused. */
export type QuarantineReason = { kind: 'locked' | 'fault' | 'broken'; cause: unknown }

/** What flushes work with, and where calls go that leave a flush without an answer. */
export interface FlushContext extends FlushOptions, BatchOptions {
  pending: PendingCalls
  /** The rows of these calls are gone, or were read from another database. */
  resolveAgain(calls: readonly Call[]): void
  /** The row or claim of a key failed, which these calls touch. */
  quarantine(key: string, calls: readonly Call[], reason: QuarantineReason): void
  /** Called with the operations of each call that was committed. */
  onApplied(operations: readonly NamedOperation[]): void
  /** Whether the first attempt of a flush may send COMMIT at once. */
  mayCommitAtOnce: boolean
}

type AttemptOutcome =
  | { kind: 'committed'; results: readonly (Applied | NthError)[] }
  | Exclude<Outcome, { kind: 'committed' }>
  | { kind: 'gone' | 'refused'; keys: readonly string[] }
  /** A call was answered before COMMIT was sent. */
  | { kind: 'expired' }

const LOCKED: QuarantineReason = {
  kind: 'locked',
  cause: new Error('Another session holds a lock on one of its rows'),
}

/** Flushes calls until each is answered or has left. Returns whether anything was committed. */
export function flushAll(writer: Writer, calls: readonly Call[], context: FlushContext): Promise<boolean> {
  const work = () => ({ requests: calls.map(({ request }) => request) })
  return traced(flushTrace, work, () => flushUntilAnswered(writer, calls, context))
}

async function flushUntilAnswered(writer: Writer, calls: readonly Call[], context: FlushContext) {
  const { pending, random, resolveAgain, quarantine, onApplied } = context
  const at = context.now()
  const began = performance.now()
  const precautions = openPrecautions(context.mayCommitAtOnce)
  for (let open = calls; ; precautions.mayCommitAtOnce = false) {
    open = pending.unanswered(open)
    if (open.length === 0) return false
    const outcome = await attempt(writer, open, precautions, at, context)
    switch (outcome.kind) {
      case 'committed': {
        let operations = 0
        for (const [index, result] of outcome.results.entries()) {
          const call = open[index]
          assertInvariant(call !== undefined, 'each result belongs to a call')
          operations += call.operations.length
          onApplied(call.request.operations)
          call.settle(result)
        }
        flushMeasure.publish({ operations, durationMs: performance.now() - began })
        return true
      }
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
      case 'gone':
        open = without(open, outcome.keys, resolveAgain)
        break
      case 'refused':
        for (const key of outcome.keys) precautions.lockedPath.add(key)
        break
      case 'notLocked':
        open = without(open, outcome.gone, resolveAgain)
        for (const key of outcome.locked)
          open = without(open, [key], (leaving) => quarantine(key, leaving, LOCKED))
        break
      case 'locked':
      case 'fault': {
        const { kind, cause, key } = outcome
        for (const call of open) call.obstacle = cause
        const mayBeFound = kind === 'fault' || precautions.triesLocks
        precautions.onePerStatement = key === undefined && mayBeFound && !precautions.onePerStatement
        if (kind === 'locked') precautions.triesLocks = true
        if (key !== undefined)
          open = without(open, [key], (leaving) => quarantine(key, leaving, { kind, cause }))
        else if (kind === 'fault') await pauseAfterFailure(RETRY, precautions, random)
        break
      }
      case 'conflict':
      case 'full':
      case 'lost':
        for (const call of open) call.obstacle = outcome.cause
        if (outcome.kind === 'full') refuseDefinitions(open)
        precautions.onePerStatement = false
        await pauseAfterFailure(outcome.kind === 'conflict' ? CONFLICT : RETRY, precautions, random)
    }
    retryMeasure.publish(undefined)
  }
}

/**
 * Makes one attempt: reads, decides, writes and commits. A call that was answered as not applied must never be
 * committed, so COMMIT is sent in the tick in which all callers were seen waiting.
 */
async function attempt(
  writer: Writer,
  calls: readonly Call[],
  precautions: Precautions,
  at: Date,
  context: FlushContext,
): Promise<AttemptOutcome> {
  const { pending, keyTtlMs } = context
  for (const call of calls) call.flush()
  let batch: Batch
  try {
    batch = batchOf(calls, precautions, at, context)
  } catch (cause) {
    return { kind: 'broken', cause }
  }
  const transaction = await writer.begin(batch)
  if (transaction.kind !== 'transaction') return transaction
  if (transaction.fitsOneTrip) return attemptInOneTrip(transaction, batch, context)
  const reading = await transaction.read()
  if (reading.kind !== 'read') return reading
  let decision: Decision | { kind: 'expired' }
  try {
    decision = decide(batch, reading, keyTtlMs)
    if (decision.kind === 'decided') {
      transaction.write(decision.writes)
      if (!mayCommit(calls, pending)) decision = { kind: 'expired' }
    }
  } catch (cause) {
    for (const call of calls) call.rollBack()
    await transaction.rollBack()
    return { kind: 'broken', cause }
  }
  if (decision.kind !== 'decided') {
    await transaction.rollBack()
    return decision
  }
  const committing = transaction.commit()
  const { isCommitSent } = transaction
  const outcome = await committing
  assertInvariant(isCommitSent, COMMITS_AT_ONCE)
  if (outcome.kind === 'committed') return { kind: 'committed', results: decision.results }
  if (outcome.kind !== 'unknown') for (const call of calls) call.rollBack()
  return outcome
}

/** The same for a distant database: commits first, as nothing has to be decided, and then finds the results. */
async function attemptInOneTrip(
  transaction: Transaction,
  batch: Batch,
  { pending, keyTtlMs }: FlushContext,
): Promise<AttemptOutcome> {
  if (!mayCommit(batch.calls, pending)) {
    await transaction.rollBack()
    return { kind: 'expired' }
  }
  const committing = transaction.commitAtOnce()
  const { isCommitSent } = transaction
  const outcome = await committing
  assertInvariant(isCommitSent, COMMITS_AT_ONCE)
  if (outcome.kind === 'committed') {
    const decision = decide(batch, outcome.reading, keyTtlMs)
    assertInvariant(decision.kind === 'decided', 'the operations confirm the additions that were committed')
    return { kind: 'committed', results: decision.results }
  }
  if (outcome.kind !== 'unknown') for (const call of batch.calls) call.rollBack()
  return outcome
}

const COMMITS_AT_ONCE = 'COMMIT is sent as soon as all callers were seen waiting'

/** The last look: whether all callers still wait. If so, their calls are committing from now on. */
function mayCommit(calls: readonly Call[], pending: PendingCalls): boolean {
  if (pending.unanswered(calls).length < calls.length) return false
  for (const call of calls) call.commit()
  return true
}

async function pauseAfterFailure(backoff: typeof RETRY, precautions: Precautions, random: () => number) {
  precautions.failures += 1
  await pause(random() * backoffMs(backoff, precautions.failures))
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
    if (first && more.length === 0) context.quarantine(first.row.key, [], { kind: 'broken', cause })
    return false
  }
  const half = Math.ceil(calls.length / 2)
  const first = await flushAll(writer, calls.slice(0, half), context)
  const second = await flushAll(writer, calls.slice(half), context)
  return first || second
}

/** Passes on the calls that touch one of some keys. Returns the others. */
function without(
  open: readonly Call[],
  keys: readonly string[],
  passOn: (leaving: Call[]) => void,
): readonly Call[] {
  const isLeaving = (call: Call) => keys.some((key) => call.touches(key))
  const staying = open.filter((call) => !isLeaving(call))
  passOn(open.filter(isLeaving))
  return staying
}

/** Refuses definitions, of which one would make the total of a running period too large. */
function refuseDefinitions(calls: readonly Call[]): void {
  const message = 'The total of a current period would leave the safe integer range; nothing was changed.'
  for (const call of calls) {
    const isDefining = call.operations.some(({ operation }) => operation.kind === 'define')
    if (isDefining) call.settle(new NthError('OUT_OF_RANGE', message))
  }
}

/**
 * Tries to lock one row or claim of a call, and holds nothing else meanwhile. Returns the failure, if it is one of that
 * key.
 */
export async function probe(
  writer: Writer,
  key: string,
  call: Call,
  context: FlushContext,
): Promise<QuarantineReason | undefined> {
  const batch = batchOf([call], openPrecautions(false), context.now(), context)
  const hasKey = ({ row }: { row: Row }) => isOf(row, key)
  const transaction = await writer.begin({
    ...batch,
    counters: batch.counters.filter(hasKey).map(onLockedPath),
    sequenceGroups: batch.sequenceGroups
      .filter(hasKey)
      .slice(0, 1)
      .map((work) => ({ ...work, path: { kind: 'locked' } })),
    claims: batch.claims.filter((claim) => claim.key === key),
  })
  if (transaction.kind !== 'transaction') return undefined
  const reading = await transaction.read()
  if (reading.kind === 'read') await transaction.rollBack()
  const hasFailed = (reading.kind === 'locked' || reading.kind === 'fault') && reading.key === key
  return hasFailed ? { kind: reading.kind, cause: reading.cause } : undefined
}
