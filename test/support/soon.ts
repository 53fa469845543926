import { setTimeout as pause } from 'node:timers/promises'

/** How long anything may take on a machine that has much else to do, in milliseconds. */
const LIMIT_MS = 25_000

/** What is promised, or an error that says what did not come: for a test that waits for several things. */
export async function soon<Value>(what: string, promised: Promise<Value>): Promise<Value> {
  const timer = new AbortController()
  const late = pause(LIMIT_MS, undefined, timer).then(() => {
    throw new Error(`${what}: not within ${LIMIT_MS} ms`)
  })
  late.catch(() => undefined)
  try {
    return await Promise.race([promised, late])
  } finally {
    timer.abort()
  }
}
