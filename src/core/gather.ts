import DataLoader from 'dataloader'

/** The most keys that one statement reads. */
const MAX_BATCH = 1000

/**
 * Makes one read of many: what is asked for within one turn of the event loop, by any number of requests,
 * goes to `readAll` together, each key once. Nothing is remembered from one turn to the next, so a read
 * never returns less than what was committed before it was asked for.
 *
 * DataLoader's own schedule (the end of the promise jobs) would part the requests, because Node runs all
 * promise jobs between the sockets that it reads. `setImmediate` comes after all of them.
 */
export function gather<Key, Value>(
  textOf: (key: Key) => string,
  readAll: (keys: readonly Key[]) => Promise<Value[]>,
): (key: Key) => Promise<Value> {
  const loader = new DataLoader<Key, Value>(
    async (keys) => {
      const indexes = new Map<string, number>()
      const once: Key[] = []
      const places = keys.map((key) => {
        const text = textOf(key)
        const known = indexes.get(text)
        if (known !== undefined) return known
        indexes.set(text, once.length)
        return once.push(key) - 1
      })
      const values = await readAll(once)
      // Present at every place: `readAll` answers each key that it was given.
      return places.map((place) => values[place] as Value)
    },
    { cache: false, maxBatchSize: MAX_BATCH, batchScheduleFn: (send) => setImmediate(send) },
  )
  return (key) => loader.load(key)
}
