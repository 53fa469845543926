import { randomInt } from 'node:crypto'
import type { Notices } from '../operations/log.ts'
import { NthError, unavailable } from '../rules/errors.ts'
import {
  CROWDED,
  hasErrorNumber,
  isFullDisk,
  isLockout,
  isSwitchover,
  LOCKED,
  LostAnswerError,
  reasonOf,
} from './errors.ts'
import { isSameDatabase, isSameRun, type ServerIdentity } from './hostStatus.ts'

/** Why a database can't be used, in the words of `/ready`, the log and the alerts. */
type Reason = 'read-only' | 'access denied' | 'too many connections' | 'unreachable' | 'disk full'

/** A commit of the main writer, or a check that wrote, leads back to `available`; but see `full`. */
type HealthState =
  | { readonly is: 'available' }
  /** One failure: it may be a failover, or a moment of much work. The next one leads to `unavailable`. */
  | { readonly is: 'doubtful' }
  | { readonly is: 'unavailable'; readonly reason: Reason }
  /**
   * A change failed for a full disk. As only some changes need room, a success doesn't end this, and other failures don't,
   * until none has failed so for a while. Then a check ends it, if there is room.
   */
  | { readonly is: 'full'; readonly reason: 'disk full'; readonly until: number }
  | { readonly is: 'closed' }

/** The connection of the checks: opened when it is needed, and kept open. Deadlines are on the clock of `performance.now()`. */
export interface Probe {
  /** @throws {NthError} UNAVAILABLE; without a cause, it is no failure of the connection */
  read: (deadline: number) => Promise<void>
  /** Writes a row that no writer uses. */
  write: (deadline: number) => Promise<void>
  close: () => Promise<void>
}

interface HealthOptions {
  openProbe: () => Probe
  /** Gets a warning when the database becomes unavailable, and when it is available again. */
  notices: Notices
  /** Whether the disk has room, where that can be seen. */
  hasRoom?: (() => Promise<boolean>) | undefined
}

/** How long the main writer may wait for an answer until a check must find out why. */
const SILENT_MS = 3000
/** How long it counts that the database was written, until a check must write. */
const WRITTEN_COUNTS_MS = 5000
/** How long a success shows that the database serves, though it doesn't serve the check. */
const SERVED_COUNTS_MS = 1000
/** Least time between the beginnings of two checks, however many ask for them. */
const CHECK_EVERY_MS = 1000
/** Time limit of a check, in milliseconds: shorter than proxies usually wait. */
const CHECK_LIMIT_MS = 800
/** How long no change must have failed for a full disk until the disk counts as roomy: less where its room can be seen. */
const FULL_MS = 10_000
const FULL_IN_SIGHT_MS = 2000
/** The log reports two outages in so long. */
const LOGGED_IN_MS = 60_000

/**
 * Whether the database can be used: `/ready`, the metric and the log all ask here. Flushes of the main writer and checks
 * show it.
 *
 * A check is made when somebody asks, and each second while the database isn't available. Then each uses a new connection,
 * as the writers must, and closes it: a connection that was opened before shows neither that the password is right nor
 * that there is room for another one, and it would take the place of the writer's.
 */
export class Health {
  readonly #options: HealthOptions
  /** Lets the state change without requests. */
  readonly #timer: NodeJS.Timeout
  #probe: Probe
  #state: HealthState = { is: 'available' }
  /** Whether the log has this outage, and when it reported the latest two. */
  #isLogged = false
  #loggedAt: readonly [number, number] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY]
  /** When the attempt of the main writer began that has no outcome yet. */
  #attemptedAt = Number.POSITIVE_INFINITY
  #writtenAt = Number.NEGATIVE_INFINITY
  #answeredAt = Number.NEGATIVE_INFINITY
  #checkedAt = Number.NEGATIVE_INFINITY
  #checking = Promise.resolve(true)

  constructor(options: HealthOptions) {
    this.#options = options
    this.#probe = options.openProbe()
    this.#timer = setInterval(() => {
      if (this.#state.is !== 'available') this.check().catch(() => undefined)
    }, CHECK_EVERY_MS).unref()
  }

  /** A pool got an answer. */
  answered(): void {
    this.#answeredAt = performance.now()
  }

  /** A pool could not connect, or not write. A check finds out whether the database is unavailable. */
  poolFailed(error: unknown): void {
    this.#writtenAt = Number.NEGATIVE_INFINITY
    if (isFullDisk(error)) this.#fail('disk full', error)
    else this.check().catch(() => undefined)
  }

  /** The main writer begins an attempt to flush. */
  attempting(): void {
    this.#attemptedAt = performance.now()
  }

  /** What came of that attempt. Conflicts, locks and refused changes show nothing. */
  attempted(outcome: { kind: string; cause?: unknown }): void {
    const begunAt = this.#attemptedAt
    this.#attemptedAt = Number.POSITIVE_INFINITY
    if (outcome.kind === 'committed') this.#succeed(begunAt)
    else if (outcome.kind === 'lost' || outcome.kind === 'unknown')
      this.#fail(reasonFor(outcome.cause), outcome.cause)
  }

  /**
   * Checks the database, or waits for the check of others.
   *
   * @returns whether the check succeeded; false: it did not, but the database still counts as available
   * @throws {NthError} UNAVAILABLE, with the reason
   */
  async check(): Promise<boolean> {
    if (performance.now() - this.#checkedAt >= CHECK_EVERY_MS) {
      this.#checkedAt = performance.now()
      this.#checking = this.#check()
    }
    const hasSucceeded = await this.#checking
    if ('reason' in this.#state) throw unavailable(`Database unavailable: ${this.#state.reason}.`)
    return hasSucceeded
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    this.#state = { is: 'closed' }
    await this.#probe.close()
  }

  async #check(): Promise<boolean> {
    const wasAvailable = this.#state.is === 'available'
    if (!wasAvailable) this.#renewProbe()
    const hasSucceeded = await this.#ask()
    if (!wasAvailable || this.#state.is !== 'available') this.#renewProbe()
    return hasSucceeded
  }

  #renewProbe(): void {
    void this.#probe.close()
    this.#probe = this.#options.openProbe()
  }

  async #ask(): Promise<boolean> {
    const now = performance.now()
    const deadline = now + CHECK_LIMIT_MS
    const isSilent = now - this.#attemptedAt > SILENT_MS
    const isWritten = now - this.#writtenAt <= WRITTEN_COUNTS_MS
    const mustWrite = isSilent || !isWritten || this.#state.is !== 'available'
    let isReached = false
    try {
      await this.#probe.read(deadline)
      isReached = true
      if (mustWrite) await this.#probe.write(deadline)
    } catch (error) {
      const cause = error instanceof NthError ? error.cause : error
      // Not a failure of the connection.
      if (cause === undefined) throw error
      // Where it can be read, it is silent because of a lock on all that is written.
      const isLocked = isReached && cause instanceof LostAnswerError
      const reason = !(await this.#hasRoom()) ? 'disk full' : isLocked ? 'read-only' : reasonFor(cause)
      const mayServeOthers = reason === 'too many connections' || reason === 'unreachable'
      const servedAt = mayServeOthers ? this.#answeredAt : this.#writtenAt
      if (performance.now() - servedAt > SERVED_COUNTS_MS) this.#fail(reason, cause, isSilent)
      return false
    }
    if (mustWrite) this.#succeed(now)
    const state = this.#state
    if (state.is === 'full' && now > state.until && (await this.#hasRoom())) this.#recover()
    return true
  }

  async #hasRoom(): Promise<boolean> {
    return (await this.#options.hasRoom?.().catch(() => true)) ?? true
  }

  /** The database was written, by what began then: a flush reads no other clock. */
  #succeed(begunAt: number): void {
    this.#writtenAt = this.#answeredAt = begunAt
    const { is } = this.#state
    if (is === 'doubtful' || is === 'unavailable') this.#recover()
  }

  #recover(): void {
    this.#state = { is: 'available' }
    if (this.#isLogged) this.#options.notices.warn('Database available again.')
    this.#isLogged = false
  }

  /** @param isSure whether it counts as two failures */
  #fail(reason: Reason, cause: unknown, isSure = false): void {
    const state = this.#state
    const now = performance.now()
    if (state.is === 'closed') return
    if (reason === 'disk full')
      this.#state = { is: 'full', reason, until: now + (this.#options.hasRoom ? FULL_IN_SIGHT_MS : FULL_MS) }
    else if (state.is === 'available' && !isSure) this.#state = { is: 'doubtful' }
    else if (state.is !== 'full' || now > state.until) this.#state = { is: 'unavailable', reason }
    if ('reason' in this.#state) this.#log(this.#state.reason, cause)
  }

  /** Logs an outage, or leaves that to its next failure if the log has had two within a minute. */
  #log(reason: Reason, cause: unknown): void {
    const now = performance.now()
    const [latestButOne, latest] = this.#loggedAt
    if (this.#isLogged || now - latestButOne < LOGGED_IN_MS) return
    this.#isLogged = true
    this.#loggedAt = [latest, now]
    this.#options.notices.warn(`Database unavailable: ${reason} (${reasonOf(cause)}).`)
  }
}

function reasonFor(error: unknown): Reason {
  if (isFullDisk(error)) return 'disk full'
  if (isLockout(error)) return 'access denied'
  if (hasErrorNumber(error, ...CROWDED)) return 'too many connections'
  // No row of another session is waited for where this counts: a lock is one on all that is written.
  return isSwitchover(error) || hasErrorNumber(error, ...LOCKED) ? 'read-only' : 'unreachable'
}

/**
 * Detects that the writers reach another database, or one that lost transactions. After a failover or a restore, a
 * server reuses the ids of lost rows for other rows, so nothing that was read before may be used any more.
 *
 * Invariant: a flush only uses rows that were read in the current incarnation.
 *
 * Numbers that were lost would be reissued. So a database that has lost some is not used, by any process, until an
 * operator accepts that. States: whole; lossy, noticed by this process, which has yet to note it in the database; lossy,
 * as noted there, by this process or by another.
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
 * @param worksDespiteLoss whether a database that has lost some is used nevertheless, to make up for the loss
 */
export function createFailoverDetector(notices: Notices, worksDespiteLoss = false) {
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
      invalidate(`${textOf(loss)} ${STOPPED}`)
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
      if (worksDespiteLoss) return
      if (loss) invalidate(`${textOf(loss)} Another process noticed this. ${STOPPED}`)
      else if (wasLossy) invalidate(ACCEPTED)
    },

    /** Why the database must not be used; undefined: it may. */
    get obstacle(): string | undefined {
      return loss && !worksDespiteLoss ? textOf(loss) : undefined
    },

    /** @throws {NthError} UNAVAILABLE if the database must not be used: no retry mends that */
    assertWhole() {
      if (loss && !worksDespiteLoss) throw unavailable(textOf(loss))
    },
  }
}

function textOf({ what }: Loss): string {
  return `The database lacks changes that it had committed: ${what}.`
}

const ANOTHER_SERVER =
  'The connection reached another database server. All rows and definitions are read again.'
const STOPPED =
  'All Nth processes stop using it, because numbers would be reissued. nth check says what to do.'
const ACCEPTED = 'An operator has accepted that the database lost changes. It is used again.'
