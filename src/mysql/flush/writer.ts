import { isTooLarge } from '../../core/errors.ts'
import type { Decision, Flush, Outcome, Writer } from '../../core/groupCommit/writer.ts'
import { ER, failureOf, hasErrorNumber, isOwnFault, isUnwritable } from '../connections/errors.ts'
import { afterSwitchover } from '../connections/health.ts'
import type { Hosts } from '../connections/hosts/hosts.ts'
import type { ReconnectingSessionOptions } from '../connections/reconnecting.ts'
import { FailedStatement, type Session } from '../connections/session.ts'
import type { CounterRecord } from '../counters/record.ts'
import { noteIssued } from '../sequences/writeBack.ts'
import { begin, end, type Fenced, hasBegun, hasLeftGroup, keptIn, ROLLED_BACK, rollBack } from './fence.ts'
import { openFencedConnection } from './fencedConnection.ts'
import { lockAndRead, readAgain } from './lockAndRead.ts'
import { foundIn, type Members, membersOf } from './members.ts'
import { fitsOneTrip, oneTripSteps, readFound } from './oneTrip.ts'
import { readAnswers, type Step } from './steps.ts'
import { splitMissing, tryLocks, withoutLock } from './tryLocks.ts'
import { writeBack } from './writeBack.ts'

/** `kept`: what a committed transaction kept with its fence. */
type Ended = NotCommitted | { kind: 'committed'; kept: string | undefined }
type NotCommitted = Exclude<Outcome, { kind: 'committed' }>

interface WriterOptions extends ReconnectingSessionOptions {
  /** Called with the rows that a flush changed, or may have changed. */
  onChanged: (rows: readonly CounterRecord[]) => void
  /** Called with failures that an operator should see. */
  onFault: (error: unknown) => void
}

/** Another session holds the lock. MySQL has an error of its own for NOWAIT. */
const LOCKED = [ER.LOCK_WAIT_TIMEOUT, ER.LOCK_NOWAIT]

/**
 * A connection that flushes. A flush takes two round trips: first all statements that lock, change and read; then, once
 * the operations are applied to what was found, the writes that result from them, and COMMIT.
 *
 * Only the answers OK and "deadlock" decide the outcome of a COMMIT. After any other, the fence is read on a new
 * connection. A connection lost before COMMIT was sent means that nothing was applied: nobody else can send it.
 */
export function openWriter(hosts: Hosts, options: WriterOptions): Writer {
  const { failover, onChanged, onFault } = options
  const reportWriting = afterSwitchover(options.health.writing)
  const hidden = new Set<number>()
  let isTriggered = false
  let onePerStatement = false
  let isBusy = false
  const connection = openFencedConnection(hosts, options, () => isBusy)

  return {
    async flush(flush) {
      isBusy = true
      const outcome = await attempt(flush)
      isBusy = false
      return outcome
    },

    close: connection.close,
  }

  async function attempt(flush: Flush): Promise<Outcome> {
    let fenced: Fenced
    try {
      fenced = await connection.open()
    } catch (cause) {
      if (isUnwritable(causeOf(cause))) reportWriting(false, causeOf(cause))
      return { kind: 'failed', cause }
    }
    const members = membersOf(flush)
    const rows = [...members.counters, ...members.sequenceGroups]
    if (rows.some(({ row }) => row.incarnation !== failover.incarnation)) return { kind: 'stale' }
    const { session } = fenced
    const form = { onePerStatement, isTriggered, hidden, isGalera: session.isGalera }
    if (flush.isOptimistic && session.isFar && fitsOneTrip(members, flush)) {
      return inOneTrip(fenced, members, flush)
    }
    let steps: Step[] = []
    let decision: Decision | 'withdraw'
    try {
      if (flush.isImpatient) {
        steps = [...begin(fenced), ...tryLocks(members, flush.claims)]
        const answers = await send(session, steps)
        if (!hasBegun(answers)) return await lose(fenced)
        const missing = withoutLock(members.counters, answers)
        if (missing.length > 0) {
          const keys = await splitMissing(session, missing)
          await rollBack(session)
          return { kind: 'unavailable', ...keys }
        }
      }
      steps = [...(flush.isImpatient ? [] : begin(fenced)), ...lockAndRead(members, flush, form)]
      const answers = await send(session, steps)
      if (!flush.isImpatient && !hasBegun(answers)) return await lose(fenced)
      readAnswers(steps, answers)
      if (members.claimed + members.earlier.length !== flush.claims.length) {
        await rollBack(session)
        return { kind: 'failed', cause: new Error('An idempotency key is neither claimed nor found') }
      }
      const unclear = members.counters.filter(({ isUnclear }) => isUnclear)
      if (unclear.length > 0) {
        steps = readAgain(members, unclear, form)
        readAnswers(steps, await send(session, steps))
        // A trigger hid the value: 0 gives the same answer.
        if (unclear.some(({ isAdded, found }) => isAdded && found?.value !== 0)) isTriggered = true
      }
      decision = flush.decide(foundIn(members))
      if (decision === 'withdraw') {
        await rollBack(session)
        return { kind: 'withdrawn' }
      }
      steps = writeBack(decision, { at: flush.at, first: members.first }, form)
      if (!flush.commit()) {
        await rollBack(session)
        return { kind: 'withdrawn' }
      }
    } catch (error) {
      return failed(session, error, flush, steps)
    }
    const outcome = await commit(fenced, steps, flush)
    noteChanged(outcome, members, flush, decision)
    return outcome
  }

  /** A flush of which nothing has to be decided before COMMIT. */
  async function inOneTrip(fenced: Fenced, members: Members, flush: Flush): Promise<Outcome> {
    if (!flush.commit()) return { kind: 'withdrawn' }
    const outcome = await commit(fenced, oneTripSteps(fenced, members, flush.at), flush)
    noteChanged(outcome, members, flush)
    if (outcome.kind !== 'committed') return outcome
    try {
      readFound(members, outcome.kept ?? '')
      if (flush.decide(foundIn(members)) !== 'withdraw') return outcome
      throw new Error('Additions were committed that their operations do not confirm')
    } catch (cause) {
      onFault(cause)
      return { kind: 'unknown', cause }
    }
  }

  function noteChanged({ kind }: Outcome, { counters }: Members, { at }: Flush, decision?: Decision): void {
    if (kind !== 'committed' && kind !== 'unknown') return
    const rows = counters.map(({ row }) => row)
    for (const row of rows) row.changedAt = at.getTime()
    try {
      onChanged(rows)
      if (kind === 'committed' && decision) noteIssued(decision.sequenceGroups)
    } catch (error) {
      // Committed results are returned whatever happens here.
      onFault(error)
    }
  }

  /** The last round trip, or the only one: writes, and COMMIT. */
  async function commit(fenced: Fenced, writes: Step[], flush: Flush): Promise<Ended> {
    const { session, fence } = fenced
    let kept: string | undefined
    try {
      kept = keptIn(await send(session, [...writes, ...end(fenced)]))
    } catch (error) {
      // It was not sent.
      if (isTooLarge(error)) return failed(session, error, flush, writes)
      // After a statement that failed, the server runs no other.
      const isBeforeCommit = error instanceof FailedStatement && error.index < writes.length
      if (isBeforeCommit) return failed(session, error, flush, writes)
      const cause = causeOf(error)
      onePerStatement = false
      if (hasErrorNumber(cause, ...ROLLED_BACK)) {
        // The next START TRANSACTION would commit what may still be open.
        await rollBack(session)
        if (hasLeftGroup(session, cause)) session.drop()
        return { kind: 'failed', cause, isConflict: true }
      }
      session.drop()
      if (isUnwritable(cause)) reportWriting(false, cause)
      else options.health.unanswered()
      const last = await connection.lastCommit(fenced, flush.awaited)
      if (last === undefined) {
        // Whatever that transaction does, it no longer belongs to this writer.
        connection.leaveFence()
        return { kind: 'unknown', cause }
      }
      if (!last.isCommitted) return { kind: 'failed', cause }
      kept = last.kept
    }
    onePerStatement = false
    fence.seq += 1
    reportWriting(true)
    return { kind: 'committed', kept }
  }

  /** The fence is not as this writer left it. */
  async function lose(fenced: Fenced): Promise<Outcome> {
    await rollBack(fenced.session)
    await connection.replaceFence(fenced)
    return { kind: 'stale' }
  }

  /** The outcome of an error before COMMIT: nothing was applied, and one row or claim may be the cause. */
  async function failed(session: Session, error: unknown, flush: Flush, sent: Step[]): Promise<NotCommitted> {
    const wasOnePerStatement = onePerStatement
    onePerStatement = false
    if (!(error instanceof FailedStatement) && !isOwnFault(error)) {
      session.drop()
      options.health.unanswered()
      return { kind: 'failed', cause: error }
    }
    await rollBack(session)
    if (!(error instanceof FailedStatement)) return { kind: 'broken', cause: error }
    const { cause } = error
    // Not a locked row: this writer's own, or a node that did not catch up with its cluster in time.
    if (sent[error.index]?.isFirst) return { kind: 'failed', cause }
    // From `keepFound`.
    if (hasErrorNumber(cause, ER.SUBQUERY_NO_1_ROW)) return { kind: 'withdrawn' }
    // NULL means a sum that is too large. Without a definition, it comes from a trigger.
    const mayBeFull = flush.counters.some(({ isForDefinition }) => isForDefinition)
    if (mayBeFull && hasErrorNumber(cause, ER.BAD_NULL_ERROR)) return { kind: 'failed', cause, isFull: true }
    const failure = failureOf(cause)
    const isFault = failure === 'fault'
    const isLocked = hasErrorNumber(cause, ...LOCKED)
    const failingKey = isFault || isLocked ? sent[error.index]?.owner : undefined
    if (failingKey !== undefined) return { kind: 'failed', cause, failingKey, isFault, isLocked }
    // Try again with one statement per row, to find the one that fails. Locks are tried first by themselves.
    onePerStatement = (isFault || (isLocked && flush.isImpatient)) && !wasOnePerStatement
    if ((isFault && wasOnePerStatement) || failure === 'refused') reportWriting(false, cause)
    return { kind: 'failed', cause, isLocked, isConflict: failure === 'conflict' && !isLocked }
  }
}

function send(session: Session, steps: readonly Step[]) {
  return session.send(steps.map(({ statement }) => statement))
}

function causeOf(error: unknown): unknown {
  return error instanceof FailedStatement ? error.cause : error
}
