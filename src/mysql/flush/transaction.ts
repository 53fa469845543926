import { ER } from '../connections/errors.ts'
import type { Answer, Session } from '../connections/session.ts'
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

/** The last statements of a transaction. */
export function end({ session, fence }: Fenced): string[] {
  return session.isClustered ? [guard(fence), 'commit'] : ['commit']
}

/** Errors of the last statements that mean that the transaction had no effect. */
export const ROLLED_BACK = [ER.LOCK_DEADLOCK, ER.TRANSACTION_ROLLBACK_DURING_COMMIT, ER.SUBQUERY_NO_1_ROW]

/** Rolls back. If even this fails, the connection is lost, and the server rolls the transaction back. */
export async function rollBack(session: Session): Promise<void> {
  if (session.isOpen()) await session.send(['rollback']).catch(session.drop)
}
