import DataLoader from 'dataloader'

/**
 * Collects the keys that are requested within one tick of the event loop and passes them to `load` together, which
 * returns a value or an error for each, in their order.
 *
 * A tick ends with `setImmediate`, after all sockets that were ready have been read: Node runs promise jobs between
 * sockets, which would split the requests. Nothing is cached: a read never misses what was committed before it.
 */
export function loadPerTick<Key, Value>(
  load: (keys: readonly Key[]) => Promise<readonly (Value | Error)[]>,
): (key: Key) => Promise<Value> {
  const loader = new DataLoader(load, { cache: false, batchScheduleFn: setImmediate })
  return (key) => loader.load(key)
}
