import { NthError } from './errors.ts'
import { untilRoom } from './turns.ts'

/** Of so many who asked for one thing each, all go on at once when it is found; of more, the others as there is room. */
const AT_ONCE = 50

/** How much comes after a read of one thing, in values. */
const VALUES_OF_A_READ = 20

/** The most keys that one statement reads. */
const MAX_BATCH = 1000

/** Reads that share their statements with all others of the same turn of the event loop. */
export interface GatheredReads<Key, State> {
  read(key: Key): Promise<State>
  /** Reads many in the order asked; costs little more than one. */
  readMany(keys: readonly Key[]): Promise<State[]>
}

/** What is asked for in one turn, each key once, and what will be found of it. */
interface Turn<Key, State> {
  asked: Map<string, Key>
  found: Promise<Map<string, State>>
}

/**
 * Makes one read of many: what is asked for within one turn of the event loop, by any number of requests,
 * goes to `readFound` together, each key once. What it doesn't find is as `unwritten` says, if it may miss any. Nothing is
 * remembered from one turn to the next, so a read never returns less than what was committed before it was
 * asked for. A read that fails fails all of its turn; but what can't be understood of one key fails only who asked for it.
 *
 * Turns end with `setImmediate`, which comes after all sockets that were ready: Node runs the promise jobs
 * between one socket and the next, so they would part the requests. A promise for each key, as DataLoader
 * makes, costs more than all else in a request that reads a hundred.
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
        // Who comes from now on belongs to the next turn.
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

  /** What was found in a turn. Where something of it can't be understood, each reads its own again. */
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
  throw new Error(`It was not read: ${JSON.stringify(key)}`)
}
