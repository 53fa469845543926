import type { Decision, Flush, FlushBody, Outcome, Writer } from '../../core/groupCommit/writer.ts'
import { ER, failureOf, hasErrorNumber, isOwnFault, isUnwritable } from '../connections/errors.ts'
import { afterSwitchover, type Note } from '../connections/reachability.ts'
import { type LineOptions, openLine } from '../connections/reconnecting.ts'
import { type Answer, FailedStatement, type Session } from '../connections/session.ts'
import type { Target } from '../connections/target.ts'
import type { CountingRow } from '../counters/update.ts'
import { noteDealt } from '../sequences/writeGroups.ts'
import { type Fence, guard, hasCommitted, openFence, raise, sweep, touch } from './fence.ts'
import { writeFlush } from './lockAndRead.ts'
import { readFound } from './readFound.ts'
import type { FlushText } from './steps.ts'
import type { StoredRow } from './storedRow.ts'
import { readMissing, tryLocks } from './tryLocks.ts'
import { writeDecided } from './writeBack.ts'

const DAY_MS = 86_400_000

/**
 * A connection that flushes. A flush takes two round trips: first all statements that lock, change and read; then, once
 * the operations are applied to what was found, the writes that result from them, and COMMIT.
 *
 * Only the answers OK and "deadlock" decide the outcome of a COMMIT. After any other, the fence is read on a new
 * connection. A connection lost before COMMIT was sent means that nothing was applied: nobody else can send it.
 */
export function openWriter(target: Target, options: WriterOptions): Writer<StoredRow> {
  const { origin, idleLimitS } = options
  const noteWrites = afterSwitchover(options.noteWrites)
  const line = openLine(target, options)
  let isTriggered = false
  const hidden = new Set<number>()
  let fence: Fence | undefined
  let onePerStatement = false
  let isImpatient = false
  let isBusy = false
  let touchedAt = performance.now()
  const heart = setInterval(beat, (idleLimitS * 1000) / 3)

  return {
    async flush(flush) {
      isBusy = true
      const outcome = await attempt(flush)
      isBusy = false
      return outcome
    },

    async close() {
      clearInterval(heart)
      await line.close()
    },
  }

  async function attempt(flush: Flush<StoredRow>): Promise<Outcome> {
    let session: Session
    let used: Fence
    try {
      session = await line.session()
      used = fence ??= await openOwnFence(session)
    } catch (cause) {
      noteUnwritable(cause)
      return { kind: 'failed', cause }
    }
    if (isStale(flush)) return { kind: 'stale' }
    const form = { onePerStatement, isTriggered, hidden, isClustered: session.isClustered }
    isImpatient = flush.isImpatient
    let left: FlushBody<StoredRow> | undefined = flush
    let ownerAt: OwnerAt = () => undefined
    let decided: FlushText
    let decision: Decision | false
    try {
      if (isImpatient) {
        const locks = tryLocks(flush)
        ownerAt = locks.ownerAt
        const answers = await begin(session, used, locks.statements)
        if (!answers) return await lose(session)
        left = await withoutMissing(session, flush, locks.missing(answers))
        if (!left) return await withdraw(session)
      }
      const text = writeFlush(left, form)
      ownerAt = text.ownerAt
      const answers = await (isImpatient
        ? session.send(text.statements)
        : begin(session, used, text.statements))
      if (!answers) return await lose(session)
      const { found, first, isKeptBack } = await readFound(session, text, answers, left)
      isTriggered ||= isKeptBack
      if (!found) return await giveUp(session, 'An idempotency key is neither claimed nor found')
      decision = left.decide(found)
      if (!decision) return await withdraw(session)
      decided = writeDecided(left, { values: found.values, first }, decision, form)
      if (!left.mayCommit()) return await withdraw(session)
    } catch (error) {
      return failed(session, error, left ?? flush, ownerAt)
    }
    const outcome = await commit(session, used, decided, left)
    try {
      const mayBeDone = outcome.kind === 'committed' || outcome.kind === 'unknown'
      if (mayBeDone) options.onChanged(left.counters.map(({ row }) => row))
      if (outcome.kind === 'committed') noteDealt(left.groups, decision.groupWrites)
    } catch (error) {
      // Committed results are returned whatever happens here.
      options.onFault(error)
    }
    return outcome
  }

  /** Whether a flush has rows of an earlier incarnation of the database. */
  function isStale({ counters, groups }: FlushBody<StoredRow>): boolean {
    const isOld = ({ row }: { row: StoredRow }) => row.incarnation !== origin.incarnation
    return counters.some(isOld) || groups.some(isOld)
  }

  /**
   * Begins a transaction: increments `seq` and sends statements. Returns their answers; undefined if `seq` is not what
   * this writer left it at.
   *
   * On a cluster without START TRANSACTION: `autocommit` is 0 there, and it would commit what an earlier transaction
   * left.
   */
  async function begin(
    session: Session,
    used: Fence,
    statements: readonly string[],
  ): Promise<Answer[] | undefined> {
    const start = session.isClustered ? 'rollback' : 'start transaction'
    try {
      const [, raised, ...answers] = await session.send([start, raise(used), ...statements])
      return !Array.isArray(raised) && raised?.affectedRows === 1 ? answers : undefined
    } catch (error) {
      throw error instanceof FailedStatement
        ? new FailedStatement(error.index - LEADING_STATEMENTS, error.cause)
        : error
    }
  }

  /** The database lacks what this writer has committed. */
  async function lose(session: Session): Promise<Outcome> {
    fence = undefined
    origin.lost()
    await rollBack(session)
    return { kind: 'stale' }
  }

  /** Removes rows from a flush that are locked by another session or gone. */
  async function withoutMissing(
    session: Session,
    flush: Flush<StoredRow>,
    missing: readonly string[],
  ): Promise<FlushBody<StoredRow> | undefined> {
    if (missing.length === 0) return flush
    const { statement, read } = readMissing(flush, missing)
    const [answer] = await session.send([statement])
    return flush.without(read(answer))
  }

  async function withdraw(session: Session): Promise<Outcome> {
    await rollBack(session)
    return { kind: 'withdrawn' }
  }

  /** Rolls back, to be tried again. */
  async function giveUp(session: Session, reason: string): Promise<Outcome> {
    await rollBack(session)
    return { kind: 'failed', cause: new Error(reason) }
  }

  /** The outcome of an error before COMMIT: nothing was applied, and one row or claim may be the cause. */
  async function failed(
    session: Session,
    error: unknown,
    flush: FlushBody<StoredRow>,
    ownerAt: OwnerAt,
  ): Promise<Outcome> {
    const wasOnePerStatement = onePerStatement
    onePerStatement = false
    if (!(error instanceof FailedStatement)) {
      if (!isOwnFault(error)) {
        session.drop()
        return { kind: 'failed', cause: error }
      }
      await rollBack(session)
      return { kind: 'broken', cause: error }
    }
    await rollBack(session)
    const { cause } = error
    // NULL means a sum that is too large. Where all totals were read, it comes from a trigger.
    const mayBeFull = flush.counters.some(
      ({ wantsPeriodValues, isForDefinition }) => !wantsPeriodValues || isForDefinition,
    )
    if (mayBeFull && hasErrorNumber(cause, ER.BAD_NULL_ERROR)) return { kind: 'failed', cause, isFull: true }
    const failure = failureOf(cause)
    const isFault = failure === 'fault'
    const isLocked = LOCKED.some((errno) => hasErrorNumber(cause, errno))
    if (isFault || isLocked) {
      const failingKey = ownerAt(error.index)
      if (failingKey !== undefined) return { kind: 'failed', cause, failingKey, isFault, isLocked }
      // Try again with one statement per row, to find the one that fails. Locks are tried first by themselves.
      onePerStatement = (isFault || isImpatient) && !wasOnePerStatement
    }
    if (isFault || failure === 'refused') noteWrites(false, cause)
    return { kind: 'failed', cause, isLocked }
  }

  async function rollBack(session: Session): Promise<void> {
    if (!session.isOpen()) return
    // If even this fails, the connection is lost, and the server rolls the transaction back.
    await session.send(['rollback']).catch(session.drop)
  }

  /** The second round trip. If a statement fails, the server does not run the COMMIT behind it. */
  async function commit(
    session: Session,
    used: Fence,
    decided: FlushText,
    flush: FlushBody<StoredRow>,
  ): Promise<Outcome> {
    const guards = session.isClustered ? [guard(used)] : []
    try {
      await session.send([...decided.statements, ...guards, 'commit'])
    } catch (error) {
      const isFailed = error instanceof FailedStatement
      if (isFailed && error.index < decided.statements.length) {
        return failed(session, error, flush, decided.ownerAt)
      }
      onePerStatement = false
      const cause = isFailed ? error.cause : error
      if (ROLLED_BACK.some((errno) => hasErrorNumber(cause, errno))) {
        // The next START TRANSACTION would commit what may still be open.
        await rollBack(session)
        return { kind: 'failed', cause }
      }
      session.drop()
      noteUnwritable(cause)
      return outcomeByFence(session, used, flush, cause)
    }
    onePerStatement = false
    used.seq += 1
    noteWrites(true)
    return { kind: 'committed' }
  }

  async function outcomeByFence(
    { place }: Session,
    used: Fence,
    flush: FlushBody<StoredRow>,
    cause: unknown,
  ): Promise<Outcome> {
    const isCommitted = await hasCommitted(line, used, {
      place,
      isAwaited: flush.isAwaited,
      onLost: origin.lost,
    })
    if (isCommitted === false) return { kind: 'failed', cause }
    if (isCommitted) {
      used.seq += 1
      noteWrites(true)
      return { kind: 'committed' }
    }
    // Whatever that transaction does, it no longer belongs to this writer.
    fence = undefined
    return { kind: 'unknown', cause }
  }

  function noteUnwritable(error: unknown): void {
    const cause = error instanceof FailedStatement ? error.cause : error
    if (isUnwritable(cause)) noteWrites(false, cause)
  }

  async function openOwnFence(session: Session): Promise<Fence> {
    const opened = await openFence(session)
    // If this fails, another writer deletes them.
    await sweep(session).catch(unlessLost)
    return opened
  }

  /** Keeps an idle session alive and, once a day, the fence. A session that fails here is reopened when needed. */
  function beat(): void {
    const session = line.present()
    if (!session || isBusy) return
    const isDue = fence && performance.now() - touchedAt > DAY_MS
    if (isDue) touchedAt = performance.now()
    const care = async () => {
      await session.send(fence && isDue ? [touch(fence), 'commit'] : ['do 0'])
      if (isDue) await sweep(session)
    }
    care().catch(session.drop)
  }
}

/** The key of the only row or claim that the statement of an index is for. */
type OwnerAt = (index: number) => string | undefined

export interface WriterOptions extends LineOptions {
  /** Called with whether changes were possible. */
  noteWrites: Note
  /** Called with the rows that a flush changed, or may have changed. */
  onChanged: (rows: readonly CountingRow[]) => void
  /** Called with failures that an operator should see. */
  onFault: (error: unknown) => void
}

/** Statements before those of the flush. */
const LEADING_STATEMENTS = 2

/** Another session holds the lock. MySQL has an error of its own for NOWAIT. */
const LOCKED = [ER.LOCK_WAIT_TIMEOUT, ER.LOCK_NOWAIT]

/** Errors of COMMIT, or of the guard before it, that mean it had no effect. */
const ROLLED_BACK = [ER.LOCK_DEADLOCK, ER.TRANSACTION_ROLLBACK_DURING_COMMIT, ER.SUBQUERY_NO_1_ROW]

function unlessLost(error: unknown): void {
  if (!(error instanceof FailedStatement)) throw error
}
