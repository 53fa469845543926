import { setTimeout as pause } from 'node:timers/promises'

/**
 * How long anything that a test waits for may take, in milliseconds: so long that only what never comes fails, also on
 * a slow machine that has much else to do. It is the limit of `expect.poll` as well, and of what a browser waits for.
 */
export const PATIENCE_MS = 30_000

/**
 * What is promised, or an error that says what did not come: for a test that waits for several things.
 *
 * @param limitMs for what must end by a timer of this process. A busy process is late for all of its timers, in order:
 *   it comes before the timer that is set here, whatever a clock shows
 */
export async function soon<Value>(
  what: string,
  promised: Promise<Value>,
  limitMs = PATIENCE_MS,
): Promise<Value> {
  const timer = new AbortController()
  const late = pause(limitMs, undefined, timer).then(() => {
    throw new Error(`${what}: not within ${limitMs} ms`)
  })
  late.catch(() => undefined)
  try {
    return await Promise.race([promised, late])
  } finally {
    timer.abort()
  }
}
