import { groupBy } from '../mysql/sql.ts'
import { changeChannel } from '../operations/measures.ts'
import { backoffMs, errorOf, RETRY } from '../rules/errors.ts'
import { openRunningPeriods } from '../rules/periods.ts'
import { Queue } from '../rules/queue.ts'
import type { Owner } from '../rules/turns.ts'
import { firstOf, WaitingCalls, type Writer } from './batch.ts'
import {
  type Applied,
  type Call,
  cachedRows,
  doubtful,
  loadRows,
  MissingRow,
  type NamedOperation,
  openPendingCalls,
  type PendingCallsOptions,
  type Request,
} from './call.ts'
import type { Clock } from './clock.ts'
import { type FlushContext, flushAll } from './flush.ts'

/**
 * Group commit: calls that arrive while a transaction is in flight wait, and share the next transaction. Operations on
 * the same row are coalesced into one statement, and each call gets a number of its own.
 *
 * A call goes through this file from top to bottom: its rows are resolved, it is enqueued, a writer flushes it together
 * with all others that wait, and it is answered. Its states (see `call.ts`):
 *
 *   resolving → waiting → flushing → committing → answered: the usual way
 *   flushing → flushing     rolled back: because of another call, or a conflict
 *   flushing → waiting      one of its rows or its claim fails: quarantined, and flushed by a writer of the quarantine
 *   flushing → resolving    one of its rows is gone, or was read from another database
 *   flushing → answered     INTERNAL_SERVER_ERROR: our own exception; UNAVAILABLE: the database refuses it, or lost commits
 *   resolving → answered    its rows can't be read, or don't exist
 *   committing → flushing   COMMIT had no effect, as the answer shows, or the fence after a lost connection
 *   resolving, waiting, flushing → answered   UNAVAILABLE, at its deadline
 *   committing → answered                     OUTCOME_UNKNOWN, at its deadline or if the fence cannot show it
 *
 * Invariants: a call is either waiting or in exactly one flush; it is answered once; once it is answered as not applied, no
 * COMMIT that contains it is sent.
 */
export type GroupCommit = ReturnType<typeof openGroupCommit>

export interface GroupCommitOptions
  extends PendingCallsOptions,
    Pick<FlushContext, 'now' | 'random' | 'keyTtlMs' | 'notices' | 'health' | 'onApplied'> {
  openWriter: () => Writer
}

/** Each flushes one quarantined key at a time. */
const QUARANTINE_WRITERS = 2
/** Calls of a quarantined key that are flushed together: they may have to be bisected, down to each one alone. */
const MAX_QUARANTINED = 64
/** After a quarantined key has failed again. */
const QUARANTINE_PAUSE_MS = 20

/**
 * Attempts until an operator is notified, once. A row that is gone was deleted or redefined, so its key usually
 * differs. If it resolves to the same key again, the writer's connection doesn't see it yet, or somebody removed it.
 */
const ATTEMPTS_UNTIL_REPORTED = 6

export function openGroupCommit(options: GroupCommitOptions) {
  const { openWriter, notices, now, random, clock } = options
  const pending = openPendingCalls(options)
  const runningPeriods = openRunningPeriods()
  const waiting = new WaitingCalls()
  const quarantine = openQuarantine(clock)
  const { isOnProbation } = quarantine
  const handling = { resolveAgain, quarantine: isolate, setAside, isOnProbation }
  const context = { ...options, ...handling, pending, runningPeriods }
  const openOwn = () => ({ writer: openWriter(), isRunning: false })
  const main = openOwn()
  const quarantineWriters = Array.from({ length: QUARANTINE_WRITERS }, openOwn)

  return {
    /**
     * Applies operations exactly once. With a claim, a repeat returns the first result.
     *
     * @throws {NthError} the errors of the operations; for a claim, IDEMPOTENCY_KEY_REUSED; UNAVAILABLE if nothing was
     *   applied; OUTCOME_UNKNOWN if that is not known
     */
    change(request: Request): Promise<Applied> {
      pending.assertRoom(request.owner)
      return admit(request)
    },

    /**
     * Applies operations to existing rows, independently. Returns for each its result, its error, or undefined where
     * there is no row.
     *
     * @throws {NthError} UNAVAILABLE
     */
    async changeEach(operations: readonly NamedOperation[], owner?: Owner) {
      pending.assertRoom(owner)
      return Promise.all(
        operations.map((operation) =>
          admit({ operations: [operation], mode: 'one', missingRows: 'fail', owner }).then(
            ({ results }) => results[0],
            (error: Error) => (error instanceof MissingRow ? undefined : error),
          ),
        ),
      )
    },

    /** Operations that wait for their answer. */
    get pending() {
      return pending.operations
    },

    /** Closes the writers. To be called when no call waits any more. */
    async close() {
      await Promise.all([main, ...quarantineWriters].map(({ writer }) => writer.close()))
    },
  }

  function admit(request: Request): Promise<Applied> {
    const call = pending.admit(request)
    if (changeChannel.hasSubscribers) changeChannel.publish(request)
    const cached = cachedRows(request)
    if (cached) {
      call.operations = cached
      enqueue(call)
    } else void resolve(call)
    return call.answer
  }

  /** Looks up the rows of a call; again, if they were gone or read from another database. */
  async function resolve(call: Call): Promise<void> {
    const before = call.rowKeys
    if (before.length > 0) for (const named of call.request.operations) named.rows.forget(named.name)
    try {
      call.operations = await loadRows(call.request, now)
      if (before.length > 0 && before.join() === call.rowKeys.join()) await waitForRows(call)
      enqueue(call)
    } catch (error) {
      call.settle(errorOf(error))
    }
  }

  /** The writer found none of the rows that were found again under the same keys. */
  async function waitForRows(call: Call): Promise<void> {
    call.fruitless += 1
    // A redefined sequence may keep its key.
    if (call.fruitless === 1) return
    const names = call.request.operations.map(({ name }) => JSON.stringify(name))
    call.obstacle = new Error(`The writer finds no row for one of these names: ${names.join(', ')}`)
    if (call.fruitless === ATTEMPTS_UNTIL_REPORTED) notices.fault(call.obstacle)
    await clock.pause(random() * backoffMs(RETRY, call.fruitless))
  }

  function enqueue(call: Call): void {
    if (call.isAnswered) return
    const key = quarantine.keyOf(call)
    if (key === undefined) {
      waiting.add(call)
      if (!main.isRunning) void flushWaiting()
    } else {
      quarantine.add(key, [call])
      flushQuarantine()
    }
  }

  /**
   * The main writer: everything that waits is flushed together, or as much as fits, in turns; calls that arrive in the
   * meantime go with the next flush. A batch is taken after all requests that were ready have been read: otherwise half of
   * them would miss it.
   *
   * One writer is enough. Two writers, with the rows divided between them, made more flushes of half the size: with wrk,
   * 64 connections and 10 000 counters on a busy machine of two cores, a call took 88 to 100 µs of Nth's CPU time rather
   * than 76 to 79, and 37 to 46 µs of the database's rather than 19 to 22.
   */
  async function flushWaiting(): Promise<void> {
    main.isRunning = true
    while (waiting.calls.size > 0) {
      await clock.endOfTick()
      const batch = waiting.next()
      await flushAll(main.writer, batch, context).catch((error) => fail(batch, error))
    }
    main.isRunning = false
  }

  function resolveAgain(calls: readonly Call[]): void {
    for (const call of calls) {
      call.resolveAgain()
      void resolve(call)
    }
  }

  /** Quarantines keys, with calls of a flush. */
  function isolate(failed: ReadonlyMap<string, readonly Call[]>): void {
    for (const [key, calls] of failed) quarantine.add(key, calls, true)
    for (const call of [...waiting.calls]) if (quarantine.keyOf(call) !== undefined) enqueue(call)
    flushQuarantine()
  }

  function setAside(calls: readonly Call[]): readonly Call[] {
    const groups = groupBy(calls, (call) => quarantine.keyOf(call) ?? '')
    const others = groups.get('') ?? []
    groups.delete('')
    isolate(groups)
    return others
  }

  function flushQuarantine(): void {
    for (const own of quarantineWriters) if (!own.isRunning) void flushQuarantined(own)
  }

  /**
   * A writer of the quarantine: flushes each key alone, until that succeeds. It waits for no lock: another key may be
   * free, and a call that touches several rows must not hold those that others use.
   */
  async function flushQuarantined(own: typeof main): Promise<void> {
    own.isRunning = true
    for (let tried = quarantine.next(); tried; tried = quarantine.next()) {
      const { key, calls } = tried
      const flushing = flushAll(own.writer, calls, context, key)
      const isDone = await flushing.catch((error) => fail(calls, error))
      if (isDone) for (const call of quarantine.release(key)) enqueue(call)
      else quarantine.putBack(key)
      if (!isDone) await clock.pause(QUARANTINE_PAUSE_MS)
    }
    own.isRunning = false
  }

  /** Answers calls after an unexpected exception. The flush loop goes on. */
  function fail(calls: readonly Call[], error: unknown): false {
    notices.fault(error)
    for (const call of calls)
      call.settle(call.isCommitting ? doubtful(call, 'An internal error occurred', error) : errorOf(error))
    return false
  }
}

/** Maximum number of keys without waiting calls, and of those that have left the quarantine and are remembered. */
const MAX_IDLE = 1000
/** For how long it is remembered when a key was quarantined, and how many of its stays. */
const MEMORY_MS = 60_000
const MAX_STAYS = 100

/**
 * Keys of rows and claims that failed and would delay the others: another session locks them, or a trigger refuses. A key
 * that has left is on probation, as it may soon fail again: for as long as it was quarantined in the last minute.
 */
export function openQuarantine(clock: Pick<Clock, 'elapsedMs'>) {
  // Least recently tried first.
  const waiting = new Map<string, { since: number; queue: Queue<Call>; isTried: boolean }>()
  // The one that left first is first.
  const left = new Map<string, { stays: { from: number; to: number }[]; probationEnds: number }>()
  let latestLeftAt = 0

  return {
    /** The quarantined key that a call touches; undefined: none. */
    keyOf(call: Call): string | undefined {
      return waiting.size === 0 ? undefined : call.keys.find((key) => waiting.has(key))
    },

    /** Quarantines a key and adds calls that wait for it, last or, if they were in a flush, in the order of their arrival. */
    add(key: string, calls: readonly Call[], wereFlushed = false) {
      let entry = waiting.get(key)
      if (!entry) {
        const isFull = waiting.size >= MAX_IDLE
        const idle = isFull
          ? [...waiting].find(([, each]) => each.queue.size === 0 && !each.isTried)
          : undefined
        if (idle) waiting.delete(idle[0])
        // The wait for a lock that led here counts as well: it may be most of the time that the lock was held.
        const since = calls[0]?.arrivedAt ?? clock.elapsedMs()
        entry = { since, queue: new Queue(), isTried: false }
        waiting.set(key, entry)
      }
      const { queue } = entry
      const inOrder = wereFlushed ? [...calls, ...queue].sort((a, b) => a.arrivedAt - b.arrivedAt) : calls
      for (const call of inOrder) call.waitIn(queue)
    },

    /** A key that calls wait for and that no writer has. The writer has it until it is put back or released. */
    next() {
      for (const [key, entry] of waiting) {
        if (entry.isTried || entry.queue.size === 0) continue
        entry.isTried = true
        return { key, calls: firstOf(entry.queue, MAX_QUARANTINED) }
      }
      return undefined
    },

    /** The attempt failed. */
    putBack(key: string) {
      const entry = waiting.get(key)
      waiting.delete(key)
      if (entry) waiting.set(key, { ...entry, isTried: false })
    },

    /** The attempt succeeded: the key leaves the quarantine. Returns the calls that still wait for it. */
    release(key: string): readonly Call[] {
      const entry = waiting.get(key)
      waiting.delete(key)
      if (!entry) return []
      const now = clock.elapsedMs()
      const stays = [...(left.get(key)?.stays ?? []), { from: entry.since, to: now }].slice(-MAX_STAYS)
      let probationEnds = now
      for (const { from, to } of stays) probationEnds += Math.max(0, to - Math.max(from, now - MEMORY_MS))
      latestLeftAt = now
      left.delete(key)
      left.set(key, { stays, probationEnds })
      const [first] = left.keys()
      if (first !== undefined && left.size > MAX_IDLE) left.delete(first)
      return [...entry.queue]
    },

    /** Whether calls touch a key that is on probation. */
    isOnProbation(calls: readonly Call[]): boolean {
      if (left.size === 0) return false
      const now = clock.elapsedMs()
      if (now - latestLeftAt > MEMORY_MS) left.clear()
      return calls.some(({ keys }) => keys.some((key) => (left.get(key)?.probationEnds ?? 0) > now))
    },
  }
}
