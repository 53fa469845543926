import type { Decision, Flush, FlushBody, Lane, Outcome } from '../core/lane.ts'
import type { CountingRow } from './counting.ts'
import { writeDecided } from './deciding.ts'
import { ER, failureOf, hasErrorNumber, isOwnFault, isUnwritable } from './errors.ts'
import { readFound } from './finding.ts'
import { writeFlush } from './flushing.ts'
import { noteDealt } from './groupWrites.ts'
import { guard, hasRisen, type Ledger, openLedger, raise, sweep, touch } from './ledger.ts'
import { type LineOptions, openLine } from './line.ts'
import { afterSwitchover, type Note } from './reachability.ts'
import { type Answer, FailedStatement, type Session } from './session.ts'
import type { FlushText } from './steps.ts'
import type { StoredRow } from './storedRow.ts'
import type { Target } from './target.ts'
import { readMissing, tryLocks } from './tryLocks.ts'

const DAY_MS = 86_400_000

/**
 * One connection that flushes. A flush takes two trips to the server: all its statements, then, when their
 * values are known and dealt, what was decided because of them, and COMMIT.
 *
 * Only the answers OK and "deadlock" settle a COMMIT. After any other the ledger is asked, on a new connection.
 * Before COMMIT was sent, a lost connection means that nothing was done: nobody else can send it.
 */
export function openLane(target: Target, options: LaneOptions): Lane<StoredRow> {
  const { origin, idleLimitS } = options
  const noteWrites = afterSwitchover(options.noteWrites)
  const line = openLine(target, options)
  let isTriggered = false
  const hidden = new Set<number>()
  let ledger: Ledger | undefined
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
    let used: Ledger
    try {
      session = await line.session()
      used = ledger ??= await openOwnLedger(session)
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
      if (!found) return await giveUp(session, 'A key is neither claimed nor found')
      decision = left.deal(found)
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
      // What was committed is told, whatever comes of it here.
      options.onFault(error)
    }
    return outcome
  }

  /** Whether a flush has rows that were read before the database became another one. */
  function isStale({ counters, groups }: FlushBody<StoredRow>): boolean {
    const isOld = ({ row }: { row: StoredRow }) => row.incarnation !== origin.incarnation
    return counters.some(isOld) || groups.some(isOld)
  }

  /**
   * Begins a transaction: raises the ledger and sends statements. Returns their answers; undefined if the ledger is
   * not as this lane has left it.
   *
   * On a cluster without START TRANSACTION: `autocommit` is 0 there, and what an earlier one has left must not be
   * committed by this one.
   */
  async function begin(
    session: Session,
    used: Ledger,
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

  /** The database lacks what this lane has committed there. */
  async function lose(session: Session): Promise<Outcome> {
    ledger = undefined
    origin.lost()
    await rollBack(session)
    return { kind: 'stale' }
  }

  /** Has taken out what can't be had. */
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

  /** Rolls back what is to be tried again. */
  async function giveUp(session: Session, reason: string): Promise<Outcome> {
    await rollBack(session)
    return { kind: 'failed', cause: new Error(reason) }
  }

  /** What an error before COMMIT means: nothing was done, and perhaps one row or claim is to blame. */
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
    // No value was given where a sum would be too much. Where all was looked at, it is somebody's trigger.
    const mayBeFull = flush.counters.some(
      ({ wantsPeriodValues, isForDefinition }) => !wantsPeriodValues || isForDefinition,
    )
    if (mayBeFull && hasErrorNumber(cause, ER.BAD_NULL_ERROR)) return { kind: 'failed', cause, isFull: true }
    const failure = failureOf(cause)
    const isFault = failure === 'fault'
    const isLocked = LOCKED.some((errno) => hasErrorNumber(cause, errno))
    if (isFault || isLocked) {
      const culprit = ownerAt(error.index)
      if (culprit !== undefined) return { kind: 'failed', cause, culprit, isFault, isLocked }
      // Once more with a statement for each row, to find out which one it is. Locks are tried first by themselves.
      onePerStatement = (isFault || isImpatient) && !wasOnePerStatement
    }
    if (isFault || failure === 'refused') noteWrites(false, cause)
    return { kind: 'failed', cause, isLocked }
  }

  async function rollBack(session: Session): Promise<void> {
    if (!session.isOpen()) return
    // Where even this fails, the connection has ended, and the server takes the transaction back by itself.
    await session.send(['rollback']).catch(session.drop)
  }

  /** The second trip. A statement that fails there keeps COMMIT, behind it, from being looked at. */
  async function commit(
    session: Session,
    used: Ledger,
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
        // To make sure: the next START TRANSACTION would commit what is still open.
        await rollBack(session)
        return { kind: 'failed', cause }
      }
      session.drop()
      noteUnwritable(cause)
      return settle(session, used, flush, cause)
    }
    onePerStatement = false
    used.seq += 1
    noteWrites(true)
    return { kind: 'committed' }
  }

  async function settle(
    { place }: Session,
    used: Ledger,
    flush: FlushBody<StoredRow>,
    cause: unknown,
  ): Promise<Outcome> {
    const isCommitted = await hasRisen(line, used, { place, isAwaited: flush.isAwaited, onLost: origin.lost })
    if (isCommitted === false) return { kind: 'failed', cause }
    if (isCommitted) {
      used.seq += 1
      noteWrites(true)
      return { kind: 'committed' }
    }
    // Whatever becomes of that transaction, it is no longer this lane's.
    ledger = undefined
    return { kind: 'unknown', cause }
  }

  function noteUnwritable(error: unknown): void {
    const cause = error instanceof FailedStatement ? error.cause : error
    if (isUnwritable(cause)) noteWrites(false, cause)
  }

  async function openOwnLedger(session: Session): Promise<Ledger> {
    const opened = await openLedger(session)
    // What it leaves, another lane's sweep takes.
    await sweep(session).catch(unlessLost)
    return opened
  }

  /** Keeps an idle session, and once a day the ledger. A session that fails here is opened anew when needed. */
  function beat(): void {
    const session = line.present()
    if (!session || isBusy) return
    const isDue = ledger && performance.now() - touchedAt > DAY_MS
    if (isDue) touchedAt = performance.now()
    const care = async () => {
      await session.send(ledger && isDue ? [touch(ledger), 'commit'] : ['do 0'])
      if (isDue) await sweep(session)
    }
    care().catch(session.drop)
  }
}

/** The key of the only row or claim that the statement of an index is for. */
type OwnerAt = (index: number) => string | undefined

export interface LaneOptions extends LineOptions {
  /** Told whether changes could be made. */
  noteWrites: Note
  /** Told which rows a flush was about that has, or may have, changed them. */
  onChanged: (rows: readonly CountingRow[]) => void
  /** Told of failures that an operator should see. */
  onFault: (error: unknown) => void
}

/** What stands in the text before the statements of the flush. */
const LEADING_STATEMENTS = 2

/** What says that somebody else holds a row locked: MySQL has an error of its own for who doesn't wait. */
const LOCKED = [ER.LOCK_WAIT_TIMEOUT, ER.LOCK_NOWAIT]

/** The answers that say of a COMMIT, or of the guard before it, that it took no effect. */
const ROLLED_BACK = [ER.LOCK_DEADLOCK, ER.TRANSACTION_ROLLBACK_DURING_COMMIT, ER.SUBQUERY_NO_1_ROW]

function unlessLost(error: unknown): void {
  if (!(error instanceof FailedStatement)) throw error
}
