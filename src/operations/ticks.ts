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

/** Work that waits for room, in order of arrival. */
const waiting = new Set<{ values: number; start: () => void }>()
let isStarting = false

/** Waits for a tick with room for this many values, and takes it. Work that fits no tick gets one of its own. */
export function untilRoom(values: number): Promise<void> {
  if (waiting.size === 0 && takeRoom(values)) return Promise.resolve()
  return new Promise((start) => {
    waiting.add({ values, start })
    if (!isStarting) void startWaiting()
  })
}

/** One loop for all that waits: if each waited by itself, n of them would check n times in every tick. */
async function startWaiting(): Promise<void> {
  isStarting = true
  for (const work of waiting) {
    while (!takeRoom(work.values)) await nextTick()
    waiting.delete(work)
    work.start()
    // Lets it run before the clock is checked again.
    await undefined
  }
  isStarting = false
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
