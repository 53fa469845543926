import { randomInt } from 'node:crypto'
import type { Notices } from '../../core/notices.ts'
import { UnusableDatabaseError } from '../errors.ts'
import { isSameDatabase, isSameRun, type ServerIdentity } from '../hostStatus.ts'

/**
 * Detects that the writers reach another database, or one that lost transactions. After a failover or a restore, a
 * server reuses the ids of lost rows for other rows, so nothing that was read before may be used any more.
 *
 * Invariant: a flush only uses rows that were read in the current incarnation.
 *
 * Numbers that were lost would be reissued. So a database that has lost some is not used, by any process, until an
 * operator accepts that, or has accepted it from the beginning. States: whole; lossy, noticed by this process, which has
 * yet to note it in the database; lossy, as noted there, by this process or by another.
 */
export type FailoverDetector = ReturnType<typeof createFailoverDetector>

/** What a database lacks of what it had committed. */
export interface Loss {
  /** Chosen at random by whoever notices it. */
  id: number
  /** How much, as the end of a sentence. */
  what: string
}

/**
 * @param acceptsLostCommits whether a database that has lost some is used nevertheless
 */
export function createFailoverDetector(notices: Notices, acceptsLostCommits = false) {
  let incarnation = 0
  let loss: (Loss & { isNoted: boolean }) | undefined
  let latest: ServerIdentity | undefined

  function invalidate(notice?: string): void {
    incarnation++
    if (notice) notices.fault(new Error(notice))
  }

  return {
    /** Incremented whenever all cached rows become invalid. */
    get incarnation() {
      return incarnation
    },

    /** Called with the identity of a writer's new session. */
    reached(identity: ServerIdentity) {
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
      loss = { id: randomInt(1, 2 ** 48 - 1), what, isNoted: false }
      invalidate(`${textOf(loss)} ${acceptsLostCommits ? REISSUED : STOPPED}`)
    },

    /** The loss that this process still has to note in the database. */
    get unnoted(): Loss | undefined {
      return loss?.isNoted ? undefined : loss
    },

    /**
     * Called with all losses as the database has them.
     *
     * @param noted what this process has just noted
     */
    learn(losses: readonly (Loss & { isAccepted: boolean })[], noted: Loss | undefined) {
      if (loss && loss === noted) loss.isNoted = true
      // A row that is missing is not accepted: the database may have gone back in time, or be in the middle of a restore.
      const isOver = losses.some(({ id, isAccepted }) => id === loss?.id && isAccepted)
      if (loss && !isOver) return
      const wasLossy = loss !== undefined
      const open = losses.find(({ isAccepted }) => !isAccepted)
      loss = open && { ...open, isNoted: true }
      if (acceptsLostCommits) return
      if (loss) invalidate(`${textOf(loss)} Another process noticed this. ${STOPPED}`)
      else if (wasLossy) invalidate(ACCEPTED)
    },

    /** Why the database must not be used; undefined: it may. */
    get obstacle(): string | undefined {
      return loss && !acceptsLostCommits ? textOf(loss) : undefined
    },

    /** @throws {UnusableDatabaseError} if the database has lost changes, unless that is accepted */
    assertWhole() {
      if (loss && !acceptsLostCommits) throw new UnusableDatabaseError(textOf(loss))
    },
  }
}

function textOf({ what }: Loss): string {
  return `The database lacks changes that it had committed: ${what}.`
}

const ANOTHER_SERVER =
  'The connection reached another database server. All rows and definitions are read again.'
const REISSUED = 'Their numbers will be reissued, as NTH_ACCEPT_LOST_COMMITS allows.'
const STOPPED =
  'Nth does not use it any more, in any process, as their numbers would be reissued: nth check says what to do.'
const ACCEPTED = 'An operator has accepted that the database lost changes. It is used again.'
