import { isTooLarge, NthError } from '../../rules/errors.ts'
import { loadPerTick } from './loadPerTick.ts'

/** Maximum keys of one statement. */
const MAX_BATCH = 1000

/**
 * Batches reads: the keys requested within one tick, by any number of requests, go to `readFound` together, each once.
 * `unwritten` gives the state of keys that it doesn't find, if it may miss any. An error fails all reads of the tick; but
 * if a row can't be parsed, or a key alone is too large to be read, only the reads of its key fail.
 *
 * What is loaded is a whole list of keys: a promise for each key costs more than everything else in a request that reads
 * a hundred.
 */
export function batchReads<Key, State extends Key, Missing = never>(
  textOf: (key: Key) => string,
  readFound: (keys: readonly Key[]) => Promise<readonly State[]>,
  unwritten: (key: Key) => State | Missing = missing,
) {
  const load = loadPerTick<readonly Key[], (State | Missing)[]>(async (lists) => {
    try {
      return await readLists(lists)
    } catch (error) {
      if ((error instanceof NthError && !isTooLarge(error)) || lists.length === 1) throw error
      const readAlone = async (list: readonly Key[]) => (await readLists([list]))[0] ?? []
      return Promise.all(lists.map((list) => readAlone(list).catch((own: Error) => own)))
    }
  })

  async function readLists(lists: readonly (readonly Key[])[]) {
    const unique = new Map<string, Key>()
    // The text of each key is made once: with the look-up, that is most of the work here.
    const texts = lists.map((list) =>
      list.map((key) => {
        const text = textOf(key)
        unique.set(text, key)
        return text
      }),
    )
    const states = await readUnique([...unique.values()])
    return lists.map((list, index) => {
      const own = texts[index] ?? []
      return list.map((key, at) => states.get(own[at] ?? '') ?? unwritten(key))
    })
  }

  async function readUnique(keys: readonly Key[]): Promise<Map<string, State>> {
    const batches = Array.from({ length: Math.ceil(keys.length / MAX_BATCH) }, (_, index) =>
      readBatch(keys.slice(index * MAX_BATCH, (index + 1) * MAX_BATCH)),
    )
    const found = new Map<string, State>()
    for (const states of await Promise.all(batches))
      for (const state of states) found.set(textOf(state), state)
    return found
  }

  /** Reads keys with one statement, or with several if that would be too large. */
  async function readBatch(keys: readonly Key[]): Promise<readonly State[]> {
    try {
      return await readFound(keys)
    } catch (error) {
      if (keys.length <= 1 || !isTooLarge(error)) throw error
      const half = Math.ceil(keys.length / 2)
      return [...(await readBatch(keys.slice(0, half))), ...(await readBatch(keys.slice(half)))]
    }
  }

  return {
    /** Reads many. Results are in the order of the keys. Costs little more than one. */
    readMany: load,

    async read(key: Key): Promise<State | Missing> {
      const [state] = await load([key])
      return state ?? unwritten(key)
    },
  }
}

function missing(key: unknown): never {
  throw new Error(`No result for ${JSON.stringify(key)}`)
}
