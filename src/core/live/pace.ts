import { performance } from 'node:perf_hooks'
import { setTimeout as pause } from 'node:timers/promises'

/** Minimum time from one tick to the next. */
const TICK_MS = 100
/** In a busy process, pauses are this many times as long as the tick before, so that ticks take a small part of the time. */
const PAUSE_FACTOR = 24
/** Longest pause: so that there are two ticks a second, unless they themselves take long. */
const MAX_PAUSE_MS = 400
/** Utilisation of the event loop from which a process is busy, and how often it is measured. */
const BUSY = 0.5
const MEASURE_MS = 20

/** When ticks may run. All times are on the clock of `performance.now()`, in milliseconds. */
export function createPace() {
  /** When the next tick is allowed: at once then, or while the process is busy later. */
  let next = { earliest: 0, latest: 0 }
  let wake: (() => void) | undefined

  return {
    /** Waits until the next tick is allowed, and then until there is something to do, or until a time. */
    async untilDue(hasWork: () => boolean, until: number): Promise<void> {
      await pause(Math.max(0, next.earliest - performance.now()), undefined, { ref: false })
      while (performance.now() < next.latest && (await isBusy()));
      if (hasWork()) return
      const timer = new AbortController()
      wake = () => timer.abort()
      const rest = Math.max(0, until - performance.now())
      await pause(rest, undefined, { ref: false, signal: timer.signal }).catch(() => undefined)
      wake = undefined
    },

    /** There is something to do now. */
    wake: () => wake?.(),

    /** A tick has ended. */
    ticked(began: number, ended: number): void {
      const latest = ended + Math.min(PAUSE_FACTOR * (ended - began), MAX_PAUSE_MS)
      next = { earliest: began + TICK_MS, latest }
    },
  }
}

async function isBusy(): Promise<boolean> {
  const before = performance.eventLoopUtilization()
  await pause(MEASURE_MS, undefined, { ref: false })
  return performance.eventLoopUtilization(before).utilization > BUSY
}
