import { setTimeout as pause } from 'node:timers/promises'
import type { Flush, Lane, Outcome } from '../core/lane.ts'
import type { CountingRow, CountingTable } from './counting.ts'
import { ER, failureOf, hasErrorNumber } from './errors.ts'
import { type Before, type FlushText, readAgain, writeDecided, writeFlush } from './flushing.ts'
import { type Ledger, look, openLedger, raise, sweep, touch } from './ledger.ts'
import { type LineOptions, openLine } from './line.ts'
import { FailedStatement, type Session } from './session.ts'
import type { Target } from './target.ts'

/** Between two looks at the ledger that didn't succeed. */
const LOOK_PAUSE_MS = 50
const DAY_MS = 86_400_000

/**
 * One connection that flushes. A flush takes two trips to the server: all its statements, then, when their
 * values are known and dealt, COMMIT. (A third one between them where something was to be decided first.)
 *
 * Only the answers OK and "deadlock" settle a COMMIT. After any other the ledger is asked, on a new connection.
 * Before COMMIT was sent, a lost connection means that nothing was done: nobody else can send it.
 */
export function openLane(target: Target, options: LineOptions): Lane<CountingRow> {
  const { note, idleLimitS } = options
  const line = openLine(target, options)
  const triggered = new Set<CountingTable>()
  let ledger: Ledger | undefined
  let isSingly = false
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

  async function attempt(flush: Flush<CountingRow>): Promise<Outcome> {
    let session: Session
    let used: Ledger
    try {
      session = await line.session()
      used = ledger ??= await openOwnLedger(session)
    } catch (cause) {
      return { kind: 'failed', cause }
    }
    const text = writeFlush(flush.runs, flush.at, { isSingly, triggered })
    try {
      const before = await write(session, used, text, flush)
      const writes = flush.deal(before)
      if (!writes) return await withdraw(session)
      const decided = writeDecided(flush.runs, writes, flush.at)
      if (decided.length > 0) await session.send(decided)
      if (!flush.mayCommit()) return await withdraw(session)
    } catch (error) {
      return failed(session, error, text)
    }
    return commit(session, used, flush)
  }

  /** The first trip: everything that is to be changed or locked. Returns what the rows held before. */
  async function write(
    session: Session,
    used: Ledger,
    text: FlushText,
    { runs }: Flush<CountingRow>,
  ): Promise<(number | undefined)[]> {
    const [, raised, ...answers] = await session.send(['start transaction', raise(used), ...text.statements])
    if (Array.isArray(raised) || raised?.affectedRows !== 1) {
      ledger = undefined
      throw new Error("The lane's row is missing")
    }
    const before: Before[] = runs.map(() => undefined)
    text.read(answers, before)
    const again = readAgain(runs, before)
    if (again.statements.length > 0) {
      const unsure = before.flatMap((value, index) => (value === 'unsure' ? [index] : []))
      again.read(await session.send(again.statements), before)
      // A value other than 0 that the answer didn't tell was kept back by a trigger.
      for (const index of unsure) {
        const table = runs[index]?.row.table
        if (table && before[index] !== 0) triggered.add(table)
      }
    }
    return before.map((value) => (value === 'unsure' ? undefined : value))
  }

  async function withdraw(session: Session): Promise<Outcome> {
    await rollBack(session)
    return { kind: 'withdrawn' }
  }

  /** What an error before COMMIT means: nothing was done, and perhaps one run is to blame. */
  async function failed(session: Session, error: unknown, text: FlushText): Promise<Outcome> {
    const wasSingly = isSingly
    isSingly = false
    if (!(error instanceof FailedStatement)) {
      session.drop()
      return { kind: 'failed', cause: error }
    }
    await rollBack(session)
    const { cause } = error
    const failure = failureOf(cause)
    const isFault = failure === 'fault'
    if (isFault || hasErrorNumber(cause, ER.LOCK_WAIT_TIMEOUT)) {
      const culprit = text.runAt(error.index - LEADING_STATEMENTS)
      if (culprit !== undefined) return { kind: 'failed', cause, culprit, isFault }
      // Once more with a statement for each row, to find out which one it is.
      isSingly = !wasSingly
    }
    if (isFault || failure === 'refused') note(false, cause)
    return { kind: 'failed', cause }
  }

  async function rollBack(session: Session): Promise<void> {
    // Where even this fails, the connection has ended, and the server takes the transaction back by itself.
    await session.send(['rollback']).catch(session.drop)
  }

  async function commit(session: Session, used: Ledger, flush: Flush<CountingRow>): Promise<Outcome> {
    isSingly = false
    const seq = used.seq + 1
    try {
      await session.send(['commit'])
    } catch (error) {
      const cause = error instanceof FailedStatement ? error.cause : error
      if (ROLLED_BACK.some((errno) => hasErrorNumber(cause, errno))) {
        // To make sure: the next START TRANSACTION would commit what is still open.
        await rollBack(session)
        return { kind: 'failed', cause }
      }
      session.drop()
      return settle(used, seq, flush, cause)
    }
    used.seq = seq
    note(true)
    return { kind: 'committed' }
  }

  /** Finds out whether a COMMIT took effect, for as long as anybody waits for it. */
  async function settle(
    used: Ledger,
    seq: number,
    flush: Flush<CountingRow>,
    cause: unknown,
  ): Promise<Outcome> {
    while (flush.isAwaited()) {
      let session: Session | undefined
      try {
        session = await line.session()
        const found = await look(session, used)
        if (found === seq - 1) return { kind: 'failed', cause }
        if (found !== seq) break
        used.seq = seq
        return { kind: 'committed' }
      } catch {
        // A look that failed says nothing. The next one has a connection of its own.
        session?.drop()
        await pause(LOOK_PAUSE_MS)
      }
    }
    // Whatever becomes of that transaction, it is no longer this lane's.
    ledger = undefined
    return { kind: 'unknown', cause }
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
      await session.send([ledger && isDue ? touch(ledger) : 'do 0'])
      if (isDue) await sweep(session)
    }
    care().catch(session.drop)
  }
}

/** What stands in the text before the statements of the flush. */
const LEADING_STATEMENTS = 2

/** The answers that say of a COMMIT that it took no effect. */
const ROLLED_BACK = [ER.LOCK_DEADLOCK, ER.TRANSACTION_ROLLBACK_DURING_COMMIT]

function unlessLost(error: unknown): void {
  if (!(error instanceof FailedStatement)) throw error
}
