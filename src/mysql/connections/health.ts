import { isSwitchover } from './errors.ts'

/** Called with whether an attempt to use the database succeeded, and if not, why. */
type HealthReport = (isHealthy: boolean, reason?: unknown) => void

/** Two reports: a read-only or full database is reachable, and only a change shows that it can be written again. */
export type Health = Record<'connecting' | 'writing', HealthReport> & {
  /** Whether one of the last reports was bad. */
  isFailing(): boolean
}

/** @param onChange called when the database becomes unavailable, with a reason, and when it is available again */
export function createHealth(onChange: (reason?: unknown) => void): Health {
  const failing = new Set<'connecting' | 'writing'>()

  function report(what: 'connecting' | 'writing', isHealthy: boolean, reason?: unknown): void {
    const wasHealthy = failing.size === 0
    if (isHealthy) failing.delete(what)
    else failing.add(what)
    if (wasHealthy !== (failing.size === 0)) onChange(isHealthy ? undefined : reason)
  }

  return {
    connecting: report.bind(null, 'connecting'),
    writing: report.bind(null, 'writing'),
    isFailing: () => failing.size > 0,
  }
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
