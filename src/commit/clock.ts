import { setImmediate as endOfTick, setTimeout as pause } from 'node:timers/promises'

/** Time and waiting, as commits need them: those of this machine, or of a simulation. */
export interface Clock {
  /** Milliseconds since some instant: never goes back, whatever the time of day is set to. */
  elapsedMs(): number
  pause(delayMs: number): Promise<void>
  /** Waits until all requests that were ready have been read. */
  endOfTick(): Promise<void>
  /**
   * Runs work after a delay, once the sockets that are ready have been read: after a pause of the whole process they may
   * hold the answers. Doesn't keep the process alive. The returned function cancels it.
   */
  afterSockets(delayMs: number, work: () => void): () => void
  /** Runs work again and again, until the returned function is called. */
  repeat(everyMs: number, work: () => void): () => void
}

/** Every call of the API reads this one, so its functions are Node's own where they can be. */
export const SYSTEM_CLOCK: Clock = {
  elapsedMs: performance.now.bind(performance),
  pause,
  endOfTick,
  afterSockets(delayMs, work) {
    const timer = setTimeout(() => setImmediate(work), Math.max(0, delayMs)).unref()
    return () => clearTimeout(timer)
  },
  repeat(everyMs, work) {
    const timer = setInterval(work, everyMs)
    return () => clearInterval(timer)
  },
}
