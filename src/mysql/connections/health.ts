import { type Notices, SILENT } from '../../core/notices.ts'
import { isFullDisk, isSwitchover, LostAnswerError, reasonOf } from './errors.ts'

/** Called with whether an attempt to change data succeeded, and if not, why. */
type WritingReport = (isHealthy: boolean, reason?: unknown) => void

/**
 * Connecting and writing are reported separately: a read-only or full database is reachable, and only a change shows
 * that it can be written again.
 */
export interface Health {
  /** The database has answered on a connection. One that was open before and got no answer yet shows nothing. */
  connected(): void
  /**
   * An attempt to connect failed.
   *
   * @param begunAt when the attempt began, on the clock of `performance.now()`
   */
  notConnected(begunAt: number, reason: unknown): void
  writing: WritingReport
  /** A change got no answer: where there is no room for data, that is why. */
  unanswered(): void
  /** Whether one of the last reports was bad. */
  isFailing(): boolean
  /** Whether the disk is full. Most changes of existing rows succeed nevertheless. */
  isFull(): boolean
}

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
 * States: healthy, or failing for one or more reasons. A success ends the failure to connect or to write. It doesn't end
 * that of a full disk, as only some changes need room: that ends when none has met it for a while, and there is room.
 *
 * Several connections are opened side by side, and their reports arrive late where the machine is busy. So a failure to
 * connect counts only if the database hasn't answered since the attempt began. Otherwise the state would flap.
 */
export function createHealth({ notices, hasRoom }: HealthOptions): Health {
  const failing = new Set<'connecting' | 'writing' | 'full'>()
  let fullAt = 0
  let answeredAt = Number.NEGATIVE_INFINITY

  function report(what: 'connecting' | 'writing' | 'full', isHealthy: boolean, reason?: unknown): void {
    const wasHealthy = failing.size === 0
    if (isHealthy) failing.delete(what)
    else failing.add(what)
    if (wasHealthy === (failing.size === 0)) return
    notices.warn(isHealthy ? 'Database available again.' : `Database unavailable: ${reasonOf(reason)}.`)
  }

  function reportFull(reason: unknown): void {
    fullAt = performance.now()
    if (!failing.has('full')) checkLater()
    report('full', false, reason)
  }

  async function isRoomy(): Promise<boolean> {
    return (await hasRoom?.().catch(() => true)) ?? true
  }

  function checkLater(): void {
    setTimeout(async () => {
      const fullMs = hasRoom ? FULL_IN_SIGHT_MS : FULL_MS
      const isOver = performance.now() - fullAt > fullMs && (await isRoomy())
      if (isOver) report('full', true)
      else checkLater()
    }, CHECK_MS).unref()
  }

  return {
    connected() {
      answeredAt = performance.now()
      report('connecting', true)
    },
    notConnected(begunAt, reason) {
      const isLate = reason instanceof LostAnswerError || Object(reason).code === CONNECT_TIMEOUT
      const since = isLate ? Math.min(begunAt, performance.now() - ANSWER_COUNTS_MS) : begunAt
      if (answeredAt < since) report('connecting', false, reason)
    },
    writing(isHealthy, reason) {
      if (!isHealthy && isFullDisk(reason)) reportFull(reason)
      else report('writing', isHealthy, reason)
    },
    async unanswered() {
      if (!(await isRoomy())) reportFull(FULL)
    },
    isFailing: () => failing.size > 0,
    isFull: () => failing.has('full'),
  }
}

/** The health of a database whose failures are reported otherwise. */
export function silentHealth(): Health {
  return createHealth({ notices: SILENT })
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
