import { NthError } from '../errors.ts'
import { untilRoom } from './ticks.ts'

/** Maximum single reads of a tick that continue at once when they have a result. Others wait until there is room. */
const AT_ONCE = 50

/** Work that follows a single read, in values. */
const VALUES_OF_A_READ = 20

/** Maximum keys of one statement. */
const MAX_BATCH = 1000

/** Reads that share their statements with all others of the same event loop tick. */
export interface GatheredReads<Key, State> {
  read(key: Key): Promise<State>
  /** Reads many. Results are in the order of the keys. Costs little more than one. */
  readMany(keys: readonly Key[]): Promise<State[]>
}

/** The keys requested in one tick, each once, and their results. */
interface Turn<Key, State> {
  asked: Map<string, Key>
  found: Promise<Map<string, State>>
}

/**
 * Batches reads: the keys requested within one tick of the event loop, by any number of requests, go to `readFound`
 * together, each once. `unwritten` gives the state of keys that it doesn't find, if it may miss any. Nothing is cached
 * across ticks, so a read never misses what was committed before it was requested. An error fails all reads of the
 * tick; but if a row can't be parsed, only the reads of its key fail.
 *
 * A tick ends with `setImmediate`, after all sockets that were ready have been read: Node runs promise jobs between
 * sockets, which would split the requests. A promise for each key, as in DataLoader, costs more than everything else in
 * a request that reads a hundred.
 */
export function gather<Key, State extends Key>(
  textOf: (key: Key) => string,
  readFound: (keys: readonly Key[]) => Promise<readonly State[]>,
  unwritten: (key: Key) => State = missing,
): GatheredReads<Key, State> {
  let turn: Turn<Key, State> | undefined

  function openTurn(): Turn<Key, State> {
    const asked = new Map<string, Key>()
    const found = new Promise<Map<string, State>>((resolve) => {
      setImmediate(() => {
        // Later reads belong to the next tick.
        turn = undefined
        resolve(readAll([...asked.values()]))
      })
    })
    return { asked, found }
  }

  async function readAll(keys: readonly Key[]): Promise<Map<string, State>> {
    const batches = Array.from({ length: Math.ceil(keys.length / MAX_BATCH) }, (_, index) =>
      readFound(keys.slice(index * MAX_BATCH, (index + 1) * MAX_BATCH)),
    )
    const states = (await Promise.all(batches)).flat()
    return new Map(states.map((state) => [textOf(state), state]))
  }

  /** The results of a tick. If a row can't be parsed, each caller reads its own keys again. */
  async function foundIn(
    { asked, found }: Turn<Key, State>,
    own: readonly Key[],
  ): Promise<Map<string, State>> {
    try {
      return await found
    } catch (error) {
      if (error instanceof NthError || asked.size <= own.length) throw error
      return readAll(own)
    }
  }

  async function readMany(keys: readonly Key[]): Promise<State[]> {
    turn ??= openTurn()
    for (const key of keys) turn.asked.set(textOf(key), key)
    const states = await foundIn(turn, keys)
    return keys.map((key) => states.get(textOf(key)) ?? unwritten(key))
  }

  async function read(key: Key): Promise<State> {
    turn ??= openTurn()
    const text = textOf(key)
    turn.asked.set(text, key)
    const isAmongFirst = turn.asked.size <= AT_ONCE
    const states = await foundIn(turn, [key])
    if (!isAmongFirst) await untilRoom(VALUES_OF_A_READ)
    return states.get(text) ?? unwritten(key)
  }

  return { read, readMany }
}

function missing(key: unknown): never {
  throw new Error(`No result for ${JSON.stringify(key)}`)
}
