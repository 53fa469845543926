/**
 * Splits long work across ticks of the event loop, so that no request blocks the others. Work announces how many values
 * it will produce. It continues at once if the current tick has room for them, otherwise in a later one. All requests
 * share the room.
 */

import { setImmediate as nextTick } from 'node:timers/promises'

/** Maximum values of a tick, some 10 ms: a value takes 1 to 5 µs, with the work that follows (Node 20, two cores). */
const VALUES_PER_TICK = 2500

/** Time after which a tick has no more room, whatever was announced. */
const MAX_TICK_MS = 10

/** Maximum values of a list that is completed in one tick. */
const SHORT_LIST = 1000

let tick: { since: number; values: number } | undefined

/** Work that waits for room, in order of arrival. */
const waiting = new Set<{ values: number; start: () => void }>()
let isStarting = false

/** Waits for a tick with room for this many values, and takes it. Work that fits no tick gets one of its own. */
export function untilRoom(values: number): Promise<void> {
  if (waiting.size === 0 && hasRoom(values)) return Promise.resolve()
  return new Promise((start) => {
    waiting.add({ values, start })
    if (!isStarting) void startWaiting()
  })
}

/** One loop for all that waits: if each waited by itself, n of them would ask n times in every tick. */
async function startWaiting(): Promise<void> {
  isStarting = true
  for (const work of waiting) {
    while (!hasRoom(work.values)) await nextTick()
    waiting.delete(work)
    work.start()
    // Lets it run before the clock is checked again.
    await undefined
  }
  isStarting = false
}

/** Takes room for this many values in the current tick. Returns whether there was enough. */
export function hasRoom(values: number): boolean {
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

/**
 * Delivers the items of a list one by one, each when there is room for its values: for a GraphQL executor, which
 * continues with an item when its promise resolves. Short lists are returned unchanged.
 */
export async function deliverInTicks<Item>(
  items: readonly Item[],
  valuesOfEach: number,
): Promise<readonly (Item | Promise<Item>)[]> {
  const values = items.length * valuesOfEach
  const isShort = values <= SHORT_LIST
  await untilRoom(isShort ? values : items.length)
  if (isShort) return items
  const deliveries: ((item: Item) => void)[] = []
  const promises = items.map(() => new Promise<Item>((resolve) => deliveries.push(resolve)))
  const deliver = async () => {
    for (const [index, item] of items.entries()) {
      if (!hasRoom(valuesOfEach)) await untilRoom(valuesOfEach)
      deliveries[index]?.(item)
      // Lets the work that awaits this item run before the clock is checked again.
      await undefined
    }
  }
  // It awaits nothing that can fail.
  void deliver()
  return promises
}
