/**
 * The gate for long work: it waits for a tick of the event loop with room for the values that it will produce, so that
 * requests with long lists don't run in one tick and block the others. All of them share the room.
 */
import { setImmediate as nextTick } from 'node:timers/promises'

/** Maximum values of a tick, some 10 ms: a value takes 1 to 3 µs, with the work that follows (Node 20, two cores). */
const VALUES_PER_TICK = 4000

/** Time after which a tick has no more room, whatever was announced. */
const MAX_TICK_MS = 10

let tick: { since: number; values: number } | undefined

/** How much work waits for room. Each waits for what came before it, so only the first asks again in every tick. */
let waiting = 0
let last = Promise.resolve()

/** Waits for a tick with room for this many values, and takes it. Work that fits no tick gets one of its own. */
export function untilRoom(values: number): Promise<void> {
  if (waiting === 0 && takeRoom(values)) return Promise.resolve()
  waiting += 1
  last = last.then(async () => {
    while (!takeRoom(values)) await nextTick()
    waiting -= 1
  })
  return last
}

/** Takes room for this many values in the current tick. Returns whether there was enough. */
function takeRoom(values: number): boolean {
  const now = performance.now()
  if (!tick) {
    tick = { since: now, values: 0 }
    setImmediate(() => {
      tick = undefined
    })
  }
  if (now - tick.since > MAX_TICK_MS) return false
  if (tick.values > 0 && tick.values + values > VALUES_PER_TICK) return false
  tick.values += values
  return true
}
