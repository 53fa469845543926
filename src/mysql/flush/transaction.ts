import { ER, hasErrorNumber } from '../connections/errors.ts'
import { type Answer, FailedStatement, type Session } from '../connections/session.ts'
import { type Fenced, guard, raise } from './fence.ts'
import type { Step } from './steps.ts'

/**
 * The first statements of a transaction, which increment `seq`.
 *
 * On a cluster without START TRANSACTION: `autocommit` is 0 there, and it would commit what an earlier transaction left.
 */
export function begin({ session, fence }: Fenced): Step[] {
  return [{ statement: session.isClustered ? 'rollback' : 'start transaction' }, { statement: raise(fence) }]
}

/** Whether the answers to `begin` show that `seq` was what this writer left it at. */
export function hasBegun([, raised]: readonly Answer[]): boolean {
  return !Array.isArray(raised) && raised?.affectedRows === 1
}

/** How a COMMIT ended. */
export type Commit =
  | { kind: 'committed' }
  /** A statement before it failed, so the server did not run it. */
  | { kind: 'failed'; error: FailedStatement }
  /** It had no effect, because of a conflict. */
  | { kind: 'rolledBack'; cause: unknown }
  /** Not known. The session is closed. */
  | { kind: 'unknown'; cause: unknown }

/** Errors of COMMIT, or of the guard before it, that mean it had no effect. */
const ROLLED_BACK = [ER.LOCK_DEADLOCK, ER.TRANSACTION_ROLLBACK_DURING_COMMIT, ER.SUBQUERY_NO_1_ROW]

/** Sends the last statements of a transaction, and COMMIT, in one round trip. */
export async function commit({ session, fence }: Fenced, statements: readonly string[]): Promise<Commit> {
  const guards = session.isClustered ? [guard(fence)] : []
  try {
    await session.send([...statements, ...guards, 'commit'])
    return { kind: 'committed' }
  } catch (error) {
    if (error instanceof FailedStatement && error.index < statements.length) return { kind: 'failed', error }
    const cause = error instanceof FailedStatement ? error.cause : error
    if (hasErrorNumber(cause, ...ROLLED_BACK)) {
      // The next START TRANSACTION would commit what may still be open.
      await rollBack(session)
      return { kind: 'rolledBack', cause }
    }
    session.drop()
    return { kind: 'unknown', cause }
  }
}

/** Rolls back. If even this fails, the connection is lost, and the server rolls the transaction back. */
export async function rollBack(session: Session): Promise<void> {
  if (session.isOpen()) await session.send(['rollback']).catch(session.drop)
}
