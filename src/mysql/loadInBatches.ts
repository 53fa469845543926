import { errorOf } from '../core/errors.ts'
import { loadPerTick } from '../core/eventLoop/loadPerTick.ts'
import { isOwnFault } from './connections/errors.ts'

/** Maximum keys that are worked on at once. */
const BATCH = 250

/**
 * Works on all keys requested in one tick together, in the order of their texts, in batches. A batch that is too
 * large for one statement, or is failed by an exception of our own, is bisected, so that only the keys at fault fail.
 *
 * @param work returns what it found, by the text of its key
 */
export function loadInBatches<Key, Value>(
  textOf: (key: Key) => string,
  work: (keys: readonly Key[]) => Promise<ReadonlyMap<string, Value>>,
): (key: Key) => Promise<Value | undefined> {
  async function workOn(batch: readonly Key[], results: Map<string, Value | Error>): Promise<void> {
    try {
      for (const [text, value] of await work(batch)) results.set(text, value)
    } catch (error) {
      if (batch.length > 1 && isOwnFault(error)) {
        const half = Math.ceil(batch.length / 2)
        await workOn(batch.slice(0, half), results)
        await workOn(batch.slice(half), results)
      } else for (const key of batch) results.set(textOf(key), errorOf(error))
    }
  }

  return loadPerTick<Key, Value | undefined>(async (keys) => {
    const unique = new Map(keys.map((key) => [textOf(key), key]))
    // One order, so that two processes that create the same rows don't deadlock.
    const ordered = [...unique].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, key]) => key)
    const results = new Map<string, Value | Error>()
    for (let from = 0; from < ordered.length; from += BATCH) {
      await workOn(ordered.slice(from, from + BATCH), results)
    }
    return keys.map((key) => results.get(textOf(key)))
  })
}
