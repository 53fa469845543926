import { NthError } from '../errors.ts'
import { loadPerTick } from './loadPerTick.ts'
import { untilRoom } from './ticks.ts'

/** Maximum single reads of a tick that continue at once when they have a result. Others wait until there is room. */
const AT_ONCE = 50

/** Work that follows a single read, in values. */
const VALUES_OF_A_READ = 20

/** Maximum keys of one statement. */
const MAX_BATCH = 1000

/**
 * Batches reads: the keys requested within one tick, by any number of requests, go to `readFound` together, each once.
 * `unwritten` gives the state of keys that it doesn't find, if it may miss any. An error fails all reads of the tick; but
 * if a row can't be parsed, only the reads of its key fail.
 *
 * What is loaded is a whole list of keys: a promise for each key costs more than everything else in a request that reads
 * a hundred.
 */
export function batchReads<Key, State extends Key, Missing = never>(
  textOf: (key: Key) => string,
  readFound: (keys: readonly Key[]) => Promise<readonly State[]>,
  unwritten: (key: Key) => State | Missing = missing,
) {
  let singles = 0
  const load = loadPerTick<readonly Key[], (State | Missing)[]>(async (lists) => {
    singles = 0
    try {
      const states = await readTexts(lists.flat())
      return lists.map((list) => statesOf(list, states))
    } catch (error) {
      if (error instanceof NthError || lists.length === 1) throw error
      const readAlone = async (list: readonly Key[]) => statesOf(list, await readTexts(list))
      return Promise.all(lists.map((list) => readAlone(list).catch((own: Error) => own)))
    }
  })

  async function readTexts(keys: readonly Key[]): Promise<Map<string, State>> {
    const unique = [...new Map(keys.map((key) => [textOf(key), key])).values()]
    const batches = Array.from({ length: Math.ceil(unique.length / MAX_BATCH) }, (_, index) =>
      readFound(unique.slice(index * MAX_BATCH, (index + 1) * MAX_BATCH)),
    )
    const states = (await Promise.all(batches)).flat()
    return new Map(states.map((state) => [textOf(state), state]))
  }

  function statesOf(keys: readonly Key[], states: ReadonlyMap<string, State>) {
    return keys.map((key) => states.get(textOf(key)) ?? unwritten(key))
  }

  return {
    /** Reads many. Results are in the order of the keys. Costs little more than one. */
    readMany: load,

    async read(key: Key): Promise<State | Missing> {
      singles += 1
      const isAmongFirst = singles <= AT_ONCE
      const [state] = await load([key])
      if (!isAmongFirst) await untilRoom(VALUES_OF_A_READ)
      return state ?? unwritten(key)
    },
  }
}

function missing(key: unknown): never {
  throw new Error(`No result for ${JSON.stringify(key)}`)
}
