import { isFullDisk, isSwitchover } from './errors.ts'

/** Called with whether an attempt to use the database succeeded, and if not, why. */
type HealthReport = (isHealthy: boolean, reason?: unknown) => void

/** Two reports: a read-only or full database is reachable, and only a change shows that it can be written again. */
export type Health = Record<'connecting' | 'writing', HealthReport> & {
  /** Whether one of the last reports was bad. */
  isFailing(): boolean
  /** Whether the disk is full. Most changes of existing rows succeed nevertheless. */
  isFull(): boolean
}

export interface HealthOptions {
  /** Called when the database becomes unavailable, with a reason, and when it is available again. */
  onChange(reason?: unknown): void
  /** Whether the disk has room again. Default: known from changes only. */
  hasRoom?: (() => Promise<boolean>) | undefined
}

/** How long a change must not have met a full disk, until it counts as one that has room; and how often that is checked. */
const FULL_MS = 3000
const CHECK_MS = 500

/**
 * States: healthy, or failing for one or more reasons. A success ends the failure to connect or to write. It doesn't end
 * that of a full disk, as only some changes need room: that ends when none has met it for three seconds, and there is
 * room where this can be seen.
 */
export function createHealth({ onChange, hasRoom = async () => true }: HealthOptions): Health {
  const failing = new Set<'connecting' | 'writing' | 'full'>()
  let fullAt = 0

  function report(what: 'connecting' | 'writing' | 'full', isHealthy: boolean, reason?: unknown): void {
    const wasHealthy = failing.size === 0
    if (isHealthy) failing.delete(what)
    else failing.add(what)
    if (wasHealthy !== (failing.size === 0)) onChange(isHealthy ? undefined : reason)
  }

  function reportFull(reason: unknown): void {
    fullAt = performance.now()
    if (!failing.has('full')) checkLater()
    report('full', false, reason)
  }

  function checkLater(): void {
    setTimeout(async () => {
      const isOver = performance.now() - fullAt > FULL_MS && (await hasRoom().catch(() => true))
      if (isOver) report('full', true)
      else checkLater()
    }, CHECK_MS).unref()
  }

  return {
    connecting: report.bind(null, 'connecting'),
    writing(isHealthy, reason) {
      if (!isHealthy && isFullDisk(reason)) reportFull(reason)
      else report('writing', isHealthy, reason)
    },
    isFailing: () => failing.size > 0,
    isFull: () => failing.has('full'),
  }
}

/** The health of a database whose failures are reported otherwise. */
export function silentHealth(): Health {
  return createHealth({ onChange: () => undefined })
}

/**
 * Reports a server that rejects writes only on the second rejection in a row: on the first, the server may just have
 * been replaced, and this may be the last connection that leads to it.
 */
export function afterSwitchover(report: HealthReport): HealthReport {
  let isSecond = false
  return (isHealthy, reason) => {
    const isReported = isHealthy || isSecond || !isSwitchover(reason)
    isSecond = !isHealthy && isSwitchover(reason)
    if (isReported) report(isHealthy, reason)
  }
}
