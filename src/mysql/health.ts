import { randomInt } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Notices } from '../operations/log.ts'
import { unavailable } from '../rules/errors.ts'
import { isFullDisk, isSwitchover, LostAnswerError, reasonOf } from './errors.ts'
import { isSameDatabase, isSameRun, type ServerIdentity } from './hostStatus.ts'

/** Called with whether an attempt to change data succeeded, and if not, why. */
type WritingReport = (isHealthy: boolean, reason?: unknown) => void

interface HealthOptions {
  /** Gets a warning when the database becomes unavailable, and when it is available again. */
  notices: Notices
  /** Whether the disk has room, where that can be seen. */
  hasRoom?: (() => Promise<boolean>) | undefined
}

/** How long no change must have failed for a full disk until the disk counts as roomy: less where its room can be seen. */
const FULL_MS = 10_000
const FULL_IN_SIGHT_MS = 2000
const CHECK_MS = 500
const FULL = new Error('The disk of the database is full')
/** How long an answer shows that the database is available, though another connection takes too long to open. */
const ANSWER_COUNTS_MS = 1000
/** The driver's code for a connection that wasn't opened in time. */
const CONNECT_TIMEOUT = 'ETIMEDOUT'

/**
 * Connecting and writing are reported separately: a read-only or full database is reachable, and only a change shows
 * that it can be written again.
 *
 * States: healthy, or failing for one or more reasons. A success ends the failure to connect or to write. It doesn't show
 * that a full disk has room again, as only some changes need room. The disk stays full until no change has failed for it
 * for a while, and there is room.
 *
 * Several connections are opened side by side, and their reports arrive late where the machine is busy. So a failure to
 * connect counts only if the database hasn't answered since the attempt began. Otherwise the state would flap.
 */
export class Health {
  readonly #options: HealthOptions
  readonly #failing = new Set<'connecting' | 'writing' | 'full'>()
  #fullAt = 0
  #answeredAt = Number.NEGATIVE_INFINITY

  constructor(options: HealthOptions) {
    this.#options = options
  }

  /** The database has answered on a connection. One that was open before and got no answer yet shows nothing. */
  connected(): void {
    this.#answeredAt = performance.now()
    this.#report('connecting', true)
  }

  /**
   * An attempt to connect failed.
   *
   * @param begunAt when the attempt began, on the clock of `performance.now()`
   */
  notConnected(begunAt: number, reason: unknown): void {
    const isLate = reason instanceof LostAnswerError || Object(reason).code === CONNECT_TIMEOUT
    const since = isLate ? Math.min(begunAt, performance.now() - ANSWER_COUNTS_MS) : begunAt
    if (this.#answeredAt < since) this.#report('connecting', false, reason)
  }

  readonly writing: WritingReport = (isHealthy, reason) => {
    if (!isHealthy && isFullDisk(reason)) void this.#reportFull(reason)
    else this.#report('writing', isHealthy, reason)
  }

  /** A change got no answer: where there is no room for data, that is why. */
  async unanswered(): Promise<void> {
    if (!(await this.#isRoomy())) void this.#reportFull(FULL)
  }

  /** Whether one of the last reports was bad. */
  isFailing(): boolean {
    return this.#failing.size > 0
  }

  /** Whether the disk is full. Most changes of existing rows succeed nevertheless. */
  isFull(): boolean {
    return this.#failing.has('full')
  }

  #report(what: 'connecting' | 'writing' | 'full', isHealthy: boolean, reason?: unknown): void {
    const wasFailing = this.isFailing()
    if (isHealthy) this.#failing.delete(what)
    else this.#failing.add(what)
    if (wasFailing === this.isFailing()) return
    const outage = `Database unavailable: ${reasonOf(reason)}.`
    this.#options.notices.warn(isHealthy ? 'Database available again.' : outage)
  }

  async #reportFull(reason: unknown): Promise<void> {
    this.#fullAt = performance.now()
    if (this.isFull()) return
    this.#report('full', false, reason)
    const fullMs = this.#options.hasRoom ? FULL_IN_SIGHT_MS : FULL_MS
    do await pause(CHECK_MS, undefined, { ref: false })
    while (performance.now() - this.#fullAt <= fullMs || !(await this.#isRoomy()))
    this.#report('full', true)
  }

  async #isRoomy(): Promise<boolean> {
    return (await this.#options.hasRoom?.().catch(() => true)) ?? true
  }
}

/**
 * Reports a server that rejects writes only on the second rejection in a row: on the first, the server may just have
 * been replaced, and this may be the last connection that leads to it.
 */
export function afterSwitchover(report: WritingReport): WritingReport {
  let isSecond = false
  return (isHealthy, reason) => {
    const isReported = isHealthy || isSecond || !isSwitchover(reason)
    isSecond = !isHealthy && isSwitchover(reason)
    if (isReported) report(isHealthy, reason)
  }
}

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

    /** @throws {NthError} UNAVAILABLE if the database has lost changes, unless that is accepted: no retry mends that */
    assertWhole() {
      if (loss && !acceptsLostCommits) throw unavailable(textOf(loss))
    },
  }
}

function textOf({ what }: Loss): string {
  return `The database lacks changes that it had committed: ${what}.`
}

const ANOTHER_SERVER =
  'The connection reached another database server. All rows and definitions are read again.'
const REISSUED = 'The lost numbers will be reissued, as NTH_ACCEPT_LOST_COMMITS allows.'
const STOPPED =
  'All Nth processes stop using it, because numbers would be reissued. nth check says what to do.'
const ACCEPTED = 'An operator has accepted that the database lost changes. It is used again.'
