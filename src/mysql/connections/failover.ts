import { UnusableDatabaseError } from './errors.ts'
import { isSameDatabase, isSameRun, type SessionIdentity } from './identity.ts'

/**
 * Detects that the writers reach another database, or one that lost transactions. After a failover or a restore, a
 * server reuses the ids of lost rows for other rows, so nothing that was read before may be used any more.
 *
 * Invariant: a flush only uses rows that were read in the current incarnation.
 *
 * Numbers that were lost would be reissued. So nothing is sent to a database that has lost some, until an operator has
 * started this process again, or has accepted that from the beginning.
 */
export type FailoverDetector = ReturnType<typeof createFailoverDetector>

/**
 * @param report called with errors about numbers that were lost, or may be
 * @param acceptsLostCommits whether a database that has lost some is used nevertheless
 */
export function createFailoverDetector(report: (error: Error) => void, acceptsLostCommits = false) {
  let incarnation = 0
  let loss: string | undefined
  let latest: SessionIdentity | undefined

  function invalidate(notice?: string): void {
    incarnation++
    if (notice) report(new Error(notice))
  }

  return {
    /** Incremented whenever all cached rows become invalid. */
    get incarnation() {
      return incarnation
    },

    /** Called with the identity of a writer's new session. */
    reached(identity: SessionIdentity) {
      const before = latest
      latest = identity
      if (!before || isSameRun(before, identity)) return
      // Whether a restarted server has lost anything is seen in the writers' own rows.
      if (!isSameDatabase(before, identity)) invalidate(ANOTHER_SERVER)
      // The nodes of a cluster hold the same data.
      else if (before.cluster === '') invalidate()
    },

    /**
     * Called when the database lacks what a writer has committed.
     *
     * @param what how much, as the end of a sentence
     */
    lost(what: string) {
      loss = `The database lacks changes that it had committed: ${what}.`
      invalidate(`${loss} ${acceptsLostCommits ? REISSUED : STOPPED}`)
    },

    /** @throws {UnusableDatabaseError} if the database has lost changes, unless that is accepted */
    assertWhole() {
      if (loss !== undefined && !acceptsLostCommits) throw new UnusableDatabaseError(loss)
    },
  }
}

const ANOTHER_SERVER =
  'The connection reached another database server. All rows and definitions are read again.'
const REISSUED = 'Their numbers will be reissued, as NTH_ACCEPT_LOST_COMMITS allows.'
const STOPPED =
  'It is not used any more, as their numbers would be reissued: restore it, or move the numbers on with nth restore --advance; then start Nth again.'
