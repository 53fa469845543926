import { isSameDatabase, isSameRun, type SessionIdentity } from './identity.ts'

/**
 * Detects that the writers reach another database, or one that lost transactions. After a failover or a restore, a
 * server reuses the ids of lost rows for other rows, so nothing that was read before may be used any more.
 *
 * Invariant: a flush only uses rows that were read in the current incarnation.
 */
export type FailoverDetector = ReturnType<typeof createFailoverDetector>

/** @param report called with errors about numbers that were lost, or may be */
export function createFailoverDetector(report: (error: Error) => void) {
  let incarnation = 0
  let latest: SessionIdentity | undefined

  function invalidate(loss?: string): void {
    incarnation++
    if (loss) report(new Error(`${loss} All rows and definitions are read again.`))
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

    /** Called when the database lacks what a writer has committed. */
    lost() {
      invalidate('The database lacks changes that it had committed: their numbers will be reissued.')
    },
  }
}

const ANOTHER_SERVER =
  'The connection reached another database server. Numbers that it had not received yet will be reissued.'
