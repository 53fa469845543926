import type { Health } from '../mysql/health.ts'
import { groupBy } from '../mysql/sql.ts'
import type { Notices } from '../operations/log.ts'
import { flushMeasure, flushTrace, retryMeasure } from '../operations/measures.ts'
import {
  assertInvariant,
  backoffMs,
  CONFLICT,
  errorOf,
  NthError,
  RETRY,
  unavailable,
} from '../rules/errors.ts'
import {
  type Approach,
  type Batch,
  type BatchContext,
  batchOf,
  type NotApplied,
  type Outcome,
  type Transaction,
  type Writer,
} from './batch.ts'
import { type Applied, type Call, doubtful, type NamedOperation, type PendingCalls } from './call.ts'
import type { Clock } from './clock.ts'
import { type Decision, decide } from './decide.ts'
import type { Quarantine } from './quarantine.ts'

/** What flushes work with, and where calls go that leave a flush without an answer. */
export interface FlushContext extends BatchContext {
  now: () => Date
  clock: Clock
  /** How long idempotency keys are valid, in milliseconds. */
  keyTtlMs: number
  pending: PendingCalls
  notices: Notices
  /** Learns what comes of each attempt of the main writer. */
  health?: Pick<Health, 'attempting' | 'attempted'>
  /** The rows of these calls are gone, or were read from another database. */
  resolveAgain(calls: readonly Call[]): void
  quarantine: Pick<Quarantine, 'keyOf' | 'isOnProbation'>
  /** These keys are to be quarantined. The calls of each wait for it, in the order of their arrival. */
  onFailed(failed: ReadonlyMap<string, readonly Call[]>): void
  /** Called with the operations of each call that was committed. */
  onApplied(operations: readonly NamedOperation[]): void
}

type AttemptOutcome =
  | { kind: 'committed'; results: readonly (Applied | NthError)[] }
  /** Trials, which are rolled back. */
  | { kind: 'tried'; results: readonly (Applied | NthError)[] }
  | Exclude<Outcome, { kind: 'committed' }>
  | Exclude<Decision, { kind: 'decided' }>
  /** A call was answered before COMMIT was sent. */
  | { kind: 'expired' }

/**
 * Flushes calls until each is answered or has left. Returns whether anything was committed.
 *
 * @param quarantined the key of the calls, if it is quarantined
 */
export function flushAll(
  writer: Writer,
  calls: readonly Call[],
  context: FlushContext,
  quarantined?: string,
): Promise<boolean> {
  const flush: Flush = { writer, context, quarantined, at: context.now() }
  return flushTrace.tracePromise(run, { calls }, undefined, flush, calls)
}

/** What the attempts of a flush share. */
interface Flush {
  readonly writer: Writer
  readonly context: FlushContext
  readonly quarantined: string | undefined
  readonly at: Date
}

const QUICK: Approach = { kind: 'quick' }
const NO_IDS: ReadonlySet<number> = new Set()

/** Attempts of a flush to take its locks. Each refused one shows only the first claim or sequence group that is locked. */
const MAX_LOCKS_REFUSED = 8

async function run(flush: Flush, calls: readonly Call[]): Promise<boolean> {
  const { context, quarantined } = flush
  const { clock, pending, resolveAgain, onFailed, onApplied } = context
  const health = quarantined === undefined ? context.health : undefined
  const began = clock.elapsedMs()
  let approach: Approach =
    quarantined !== undefined || context.quarantine.isOnProbation(calls)
      ? { kind: 'trying', lockedPath: NO_IDS, quarantined }
      : QUICK
  let locksRefused = 0
  let pauses = 0
  let open = calls
  for (;;) {
    open = pending.unanswered(open)
    if (open.length === 0) return false
    health?.attempting()
    const outcome = await attempt(flush, approach, open)
    health?.attempted(outcome)
    if ('cause' in outcome) for (const call of open) call.obstacle = outcome.cause
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
        flushMeasure.publish({ operations, durationMs: clock.elapsedMs() - began })
        return true
      }
      case 'tried':
        for (const [index, result] of outcome.results.entries()) open[index]?.settle(result)
        return true
      case 'unknown': {
        const reason = 'The connection to the database ended before it answered'
        for (const call of open) call.settle(doubtful(call, reason, outcome.cause))
        return false
      }
      case 'lossy':
        for (const call of open) call.settle(outcome.cause)
        return false
      case 'broken':
      case 'fault':
        return quarantined === undefined
          ? bisect(flush, open, outcome)
          : bisectQuarantined(flush, open, outcome, quarantined)
      case 'stale':
        resolveAgain(open)
        return false
      case 'gone':
        open = without(open, outcome.keys, resolveAgain)
        break
      case 'notLocked':
        open = without(open, outcome.gone, resolveAgain)
        open = withoutFailed(open, outcome.locked, onFailed)
        locksRefused += 1
        if (locksRefused < MAX_LOCKS_REFUSED) break
        quarantineAll(open)
        return false
      case 'locked':
        if (approach.kind !== 'trying') break
        // It waited for what can't be tried before, such as a gap.
        quarantineAll(open)
        return false
      case 'conflict':
      case 'lost':
        pauses += 1
        await clock.pause(context.random() * backoffMs(outcome.kind === 'lost' ? RETRY : CONFLICT, pauses))
    }
    approach = next(approach, outcome)
    retryMeasure.publish(undefined)
  }

  /** Quarantines the calls of each key. */
  function quarantineAll(open: readonly Call[]): void {
    onFailed(groupBy(open, (call) => quarantined ?? call.keys[0] ?? ''))
  }
}

/** How a flush goes on after an attempt that was not applied. */
function next(approach: Approach, outcome: AttemptOutcome): Approach {
  const lockedPath = approach.kind === 'quick' ? NO_IDS : approach.lockedPath
  const ordered = approach.kind === 'quick' ? { kind: 'ordered' as const, lockedPath } : approach
  switch (outcome.kind) {
    case 'refused':
      return { ...ordered, lockedPath: new Set([...lockedPath, ...outcome.ids]) }
    case 'locked':
      return { kind: 'trying', lockedPath, quarantined: undefined }
    default:
      return ordered
  }
}

/**
 * Makes one attempt: reads, decides, writes and commits. In one trip, where nothing has to be decided: commits, and then
 * finds the results. A call that was answered as not applied must never be committed, so COMMIT, or what leads to it
 * without another decision, is sent in the tick in which all callers were seen waiting.
 */
async function attempt(
  { writer, context, at }: Flush,
  approach: Approach,
  calls: readonly Call[],
): Promise<AttemptOutcome> {
  const { pending, keyTtlMs } = context
  for (const call of calls) call.flush()
  let batch: Batch | undefined
  let transaction: Transaction | NotApplied
  try {
    batch = batchOf(calls, { context, at, approach })
    if (!batch) return { kind: 'stale' }
    transaction = await writer.begin(batch)
  } catch (cause) {
    return { kind: 'broken', cause }
  }
  if (transaction.kind !== 'transaction') return transaction
  const reading = transaction.fitsOneTrip ? undefined : await transaction.read()
  if (reading && reading.kind !== 'read') return reading
  let decision: Decision | Extract<AttemptOutcome, { kind: 'expired' | 'tried' | 'broken' }> | undefined
  try {
    if (reading) decision = decide(batch, reading, keyTtlMs)
    if (decision?.kind === 'decided' && calls[0]?.request.isTrial) decision = { ...decision, kind: 'tried' }
    if (decision?.kind === 'decided') transaction.write(decision.writes)
    if (pending.unanswered(calls).length < calls.length) decision = { kind: 'expired' }
    if (!decision || decision.kind === 'decided') for (const call of calls) call.commit()
  } catch (cause) {
    decision = { kind: 'broken', cause }
  }
  if (decision && decision.kind !== 'decided') {
    for (const call of calls) call.rollBack()
    await transaction.rollBack()
    return decision
  }
  const committing = transaction.commit()
  const { isCommitSent } = transaction
  const outcome = await committing
  assertInvariant(isCommitSent, 'COMMIT is sent as soon as all callers were seen waiting')
  if (outcome.kind === 'committed') {
    const decided = outcome.reading ? decide(batch, outcome.reading, keyTtlMs) : decision
    assertInvariant(decided?.kind === 'decided', 'what was committed was decided')
    return { kind: 'committed', results: decided.results }
  }
  if (outcome.kind !== 'unknown') for (const call of calls) call.rollBack()
  return outcome
}

type Failure = Extract<AttemptOutcome, { kind: 'broken' | 'fault' }>

/**
 * Bisects calls that are too large for one flush, or of which one causes an error. Where all touch the same rows,
 * quarantines those, as they would delay others.
 */
async function bisect(
  { writer, context }: Flush,
  calls: readonly Call[],
  { kind, cause }: Failure,
): Promise<boolean> {
  const [call, ...others] = calls
  if (!call) return false
  const { rowKeys } = call
  if (kind === 'fault' && others.every((other) => other.rowKeys.join() === rowKeys.join())) {
    const failed = new Map<string, readonly Call[]>(rowKeys.map((key) => [key, []]))
    context.onFailed(failed.set(rowKeys[0] ?? '', calls))
    return false
  }
  if (others.length === 0) return fail(call, cause, context)
  const half = Math.ceil(calls.length / 2)
  const first = await flushAll(writer, calls.slice(0, half), context)
  // The first half may have shown which rows the database refuses.
  const rest = withoutQuarantined(calls.slice(half), context)
  return rest.length === 0 ? first : (await flushAll(writer, rest, context)) || first
}

/** Bisects calls of a quarantined key, until one that the database refuses is alone, and fails. */
async function bisectQuarantined(
  { writer, context }: Flush,
  calls: readonly Call[],
  { kind, cause }: Failure,
  key: string,
): Promise<boolean> {
  const [call, ...others] = calls
  if (call && others.length === 0) {
    if (kind === 'broken') return fail(call, cause, context)
    context.notices.fault(cause)
    call.settle(unavailable('The database refuses this change; nothing was done.', cause))
    return false
  }
  const half = Math.ceil(calls.length / 2)
  const first = await flushAll(writer, calls.slice(0, half), context, key)
  return (await flushAll(writer, calls.slice(half), context, key)) && first
}

/** Answers a call that causes an exception of our own, or is too large. */
function fail(call: Call, cause: unknown, { onFailed }: FlushContext): false {
  call.settle(errorOf(cause))
  // The definition that was cached may be the cause.
  for (const named of call.request.operations) named.rows.forget(named.name)
  if (!(cause instanceof NthError) && call.operations.length === 1)
    onFailed(new Map([[call.keys.at(-1) ?? '', []]]))
  return false
}

/** Passes on the calls that touch one of some keys. Returns the others. */
function without(
  open: readonly Call[],
  keys: readonly string[],
  passOn: (leaving: Call[]) => void,
): readonly Call[] {
  const staying = open.filter((call) => !call.touches(keys))
  passOn(open.filter((call) => call.touches(keys)))
  return staying
}

/** Passes on the calls that touch one of some keys, each to the first one. Returns the others. */
function withoutFailed(
  open: readonly Call[],
  keys: readonly string[],
  onFailed: FlushContext['onFailed'],
): readonly Call[] {
  const failed = new Map<string, Call[]>(keys.map((key) => [key, []]))
  const staying = open.filter((call) => {
    const queue = failed.get(call.keys.find((key) => failed.has(key)) ?? '')
    queue?.push(call)
    return queue === undefined
  })
  onFailed(failed)
  return staying
}

/** Passes on the calls that touch a quarantined key. Returns the others. */
function withoutQuarantined(calls: readonly Call[], { quarantine, onFailed }: FlushContext): readonly Call[] {
  const keys = calls.flatMap((call) => quarantine.keyOf(call) ?? [])
  return keys.length === 0 ? calls : withoutFailed(calls, keys, onFailed)
}
