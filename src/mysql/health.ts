import type { Notices } from '../core/notices.ts'
import { isFullDisk, isSwitchover, LostAnswerError, reasonOf } from './errors.ts'

/** Called with whether an attempt to change data succeeded, and if not, why. */
type WritingReport = (isHealthy: boolean, reason?: unknown) => void

export interface HealthOptions {
  /** Gets a warning when the database becomes unavailable, and when it is available again. */
  notices: Notices
  /** Whether the disk has room, where that can be seen. */
  hasRoom?: (() => Promise<boolean>) | undefined
}

/** How long no change must have met a full disk, until it counts as one with room: less where room can be seen. */
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
 * States: healthy, or failing for one or more reasons. A success ends the failure to connect or to write. It doesn't end
 * that of a full disk, as only some changes need room: that ends when none has met it for a while, and there is room.
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
    if (!isHealthy && isFullDisk(reason)) this.#reportFull(reason)
    else this.#report('writing', isHealthy, reason)
  }

  /** A change got no answer: where there is no room for data, that is why. */
  async unanswered(): Promise<void> {
    if (!(await this.#isRoomy())) this.#reportFull(FULL)
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

  #reportFull(reason: unknown): void {
    this.#fullAt = performance.now()
    if (!this.isFull()) this.#checkLater()
    this.#report('full', false, reason)
  }

  async #isRoomy(): Promise<boolean> {
    return (await this.#options.hasRoom?.().catch(() => true)) ?? true
  }

  #checkLater(): void {
    setTimeout(async () => {
      const fullMs = this.#options.hasRoom ? FULL_IN_SIGHT_MS : FULL_MS
      const isOver = performance.now() - this.#fullAt > fullMs && (await this.#isRoomy())
      if (isOver) this.#report('full', true)
      else this.#checkLater()
    }, CHECK_MS).unref()
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
