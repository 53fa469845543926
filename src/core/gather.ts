import DataLoader from 'dataloader'

/** The most keys that one statement reads. */
const MAX_BATCH = 1000

/**
 * Makes one read of many: what is asked for within one turn of the event loop, by any number of requests,
 * goes to `readFound` together, each key once. What it doesn't find is as `unwritten` says. Nothing is
 * remembered from one turn to the next, so a read never returns less than what was committed before it was
 * asked for.
 *
 * DataLoader's own schedule (the end of the promise jobs) would part the requests, because Node runs all
 * promise jobs between the sockets that it reads. `setImmediate` comes after all of them.
 */
export function gather<Key, State extends Key>(
  textOf: (key: Key) => string,
  readFound: (keys: readonly Key[]) => Promise<readonly State[]>,
  unwritten: (key: Key) => State,
): (key: Key) => Promise<State> {
  const loader = new DataLoader<Key, State>(
    async (keys) => {
      const once = new Map(keys.map((key) => [textOf(key), key]))
      const found = new Map((await readFound([...once.values()])).map((state) => [textOf(state), state]))
      return keys.map((key) => found.get(textOf(key)) ?? unwritten(key))
    },
    { cache: false, maxBatchSize: MAX_BATCH, batchScheduleFn: (send) => setImmediate(send) },
  )
  return (key) => loader.load(key)
}
