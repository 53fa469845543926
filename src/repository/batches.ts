import { getHeapStatistics } from 'node:v8'
import DataLoader from 'dataloader'
import { LRUCache } from 'lru-cache'
import type { Connection } from '../mysql/connection.ts'
import { ER, hasErrorNumber, isOwnFault, leavesConnection } from '../mysql/errors.ts'
import type { FailoverDetector } from '../mysql/health.ts'
import type { Database, Work } from '../mysql/pool.ts'
import type { PooledConnection } from '../mysql/pooledConnection.ts'
import { JOINED } from '../mysql/slots.ts'
import { errorOf } from '../rules/errors.ts'
import { isSameRow, type Row, type Rows } from '../rules/rows.ts'
import { type Owner, ownerText, SharedOwner } from '../rules/turns.ts'

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
  unwritten?: (key: Key) => State | Missing,
) {
  return batchLookups<Key, State, Missing>(
    textOf,
    async (lookups) => {
      const states = await readFound(lookups.map(({ key }) => key))
      const stateOf = new Map(states.map((state) => [textOf(state), state]))
      for (const lookup of lookups) lookup.state = stateOf.get(lookup.text)
    },
    unwritten,
  )
}

export interface Lookup<Key, State> {
  readonly text: string
  readonly key: Key
  /** Undefined: nothing was found. */
  state: State | Error | undefined
}

/** As `batchReads`, with a read that notes in each look-up what it finds: so the text of each key is made once. */
export function batchLookups<Key, State, Missing = never>(
  textOf: (key: Key) => string,
  read: (lookups: readonly Lookup<Key, State>[]) => Promise<unknown>,
  unwritten: (key: Key) => State | Missing = missing,
) {
  const readEach = loadPerTick<readonly Key[], (State | Missing | Error)[]>(async (lists) => {
    const unique = new Map<string, Lookup<Key, State>>()
    const listed = lists.map((list) =>
      list.map((key) => {
        const text = textOf(key)
        let lookup = unique.get(text)
        if (lookup) return lookup
        lookup = { text, key, state: undefined }
        unique.set(text, lookup)
        return lookup
      }),
    )
    const lookups = [...unique.values()]
    const batches = Array.from({ length: Math.ceil(lookups.length / MAX_BATCH) }, (_, index) =>
      workOn(lookups.slice(index * MAX_BATCH, (index + 1) * MAX_BATCH), read, (lookup, error) => {
        lookup.state = error
      }),
    )
    await Promise.all(batches)
    return listed.map((list) => list.map(({ key, state }) => state ?? unwritten(key)))
  })

  async function readMany(keys: readonly Key[]): Promise<(State | Missing)[]> {
    const states = await readEach(keys)
    for (const state of states) if (state instanceof Error) throw state
    // There is no error among them.
    return states as (State | Missing)[]
  }

  return {
    /** Reads many. Results are in the order of the keys. Costs little more than one. */
    readMany,

    /** Reads many, and returns an error in the place of each whose read alone fails. */
    readEach,

    async read(key: Key): Promise<State | Missing> {
      const [state] = await readMany([key])
      return state ?? unwritten(key)
    },
  }
}

/**
 * As `batchReads`, but only the reads of one owner go together, in its turns: reads whose work differs so much that others
 * must not wait for it.
 */
export function batchOwnReads<Key, State extends Key, Missing = never>(
  textOf: (key: Key) => string,
  readFound: (keys: readonly Key[], owner: Owner) => Promise<readonly State[]>,
  unwritten?: (key: Key) => State | Missing,
) {
  type Reads = ReturnType<typeof batchReads<Key, State, Missing>>
  const open = new Map<SharedOwner | string, { shared: SharedOwner; reads: Reads }>()

  function readsOf(owner: Owner): Reads {
    const isShared = owner instanceof SharedOwner
    const who = isShared ? owner : ownerText(owner)
    let batch = open.get(who)
    if (!batch) {
      const shared = isShared ? owner : new SharedOwner(owner.arrivedAt)
      batch = { shared, reads: batchReads(textOf, (keys) => readFound(keys, shared), unwritten) }
      open.set(who, batch)
      // The tick ends: directly afterwards, all that it has collected is read.
      setImmediate(() => open.delete(who))
    }
    if (!isShared) batch.shared.join(owner)
    return batch.reads
  }

  return {
    read: (key: Key, owner: Owner) => readsOf(owner).read(key),
    readMany: (keys: readonly Key[], owner: Owner) => readsOf(owner).readMany(keys),
  }
}

function missing(key: unknown): never {
  throw new Error(`No result for ${JSON.stringify(key)}`)
}

/**
 * Collects the keys that are requested within one tick of the event loop and passes them to `load` together, which
 * returns a value or an error for each, in their order.
 *
 * A tick ends with `setImmediate`, after all sockets that were ready have been read: Node runs promise jobs between
 * sockets, which would split the requests. Nothing is cached: a read never misses what was committed before it.
 */
function loadPerTick<Key, Value>(
  load: (keys: readonly Key[]) => Promise<readonly (Value | Error)[]>,
): (key: Key) => Promise<Value> {
  const loader = new DataLoader(load, { cache: false, batchScheduleFn: setImmediate })
  return (key) => loader.load(key)
}

/** Memory of a cached row besides its names, in bytes: measured, on Node 20. */
const BYTES_PER_ROW = 310
/** Maximum memory of the cached rows of a kind, by default: an eighth of the heap, so a million in the 4 GB that Node has by default. */
const MAX_BYTES = Math.floor(getHeapStatistics().heap_size_limit / 8)

interface RowCacheOptions<Name, R> {
  textOf: (name: Name) => string
  /** Reads the existing rows, by the text of their name, in an incarnation of the database. */
  read: (connection: Connection, names: readonly Name[], incarnation: number) => Promise<Map<string, R>>
  /** Runs in its own transaction. */
  create: (connection: Connection, names: readonly Name[], at: Date) => Promise<void>
  maxBytes?: number | undefined
}

type Creation<Name> = { name: Name; at: Date }

export interface RowCache<Name, R extends Row> extends Rows<Name, R> {
  readonly incarnation: number
  /** The cached row, by the text of its name. It doesn't count as used. */
  peek(text: string): R | undefined
  /** Caches a row that was read in this incarnation, by the text of its name. */
  add(text: string, row: R): R
}

/** Reads the rows behind names, and creates missing ones: all that are requested in one tick together. */
export function createRowCache<Name, R extends Row & { incarnation: number }>(
  database: Database,
  failover: FailoverDetector,
  { textOf, read, create, maxBytes = MAX_BYTES }: RowCacheOptions<Name, R>,
): RowCache<Name, R> {
  // With `max`, space for all of them would be allocated at once.
  const cache = new LRUCache<string, R>({
    maxSize: maxBytes,
    sizeCalculation: (row, text) =>
      BYTES_PER_ROW + Buffer.byteLength(text) + ('group' in row ? Buffer.byteLength(row.group) : 0),
  })
  const load = loadInBatches<Name, R>(textOf, (names, results) =>
    cacheAll(results, (connection) => read(connection, names, failover.incarnation)),
  )
  const createAll = (creations: readonly Creation<Name>[], results: Results<R>) =>
    cacheAll(results, (connection) => createMissing(connection, creations))
  const createTogether = loadInBatches<Creation<Name>, R>(({ name }) => textOf(name), createAll)
  /** Rows being created alone, after a batch failed: another session has just created or locked one of them. */
  const createdAlone = new Map<string, Promise<R | undefined>>()

  async function cacheAll(results: Results<R>, work: Work<Map<string, R>>) {
    for (const [text, row] of await database.withRetry(JOINED, work)) results.set(text, add(text, row))
  }

  /** Returns the row that is cached: flushes have noted in it what they did to it. */
  function add(text: string, read: R): R {
    const cached = cache.get(text)
    if (cached && isSameRow(cached, read) && cached.salt === read.salt) return cached
    cache.set(text, read)
    return read
  }

  /** Creates rows that `load` didn't find, if all can be created at once. Returns those that exist afterwards. */
  async function createMissing(connection: PooledConnection, creations: readonly Creation<Name>[]) {
    const names = creations.map(({ name }) => name)
    const readAll = () => read(connection, names, failover.incarnation)
    let missing = creations
    while (true) {
      const [first] = missing
      const missingNames = missing.map(({ name }) => name)
      try {
        if (first) await connection.inTransaction(() => create(connection, missingNames, first.at))
      } catch (error) {
        const isTaken = hasErrorNumber(error, ER.DUP_ENTRY)
        // A row that fails must not keep the others from being created.
        if (!isTaken && missing.length > 1 && leavesConnection(error)) return readAll()
        // Another session may have created one at the same time; then it is found.
        if (!isTaken) throw error
      }
      const rows = await readAll()
      missing = creations.filter(({ name }) => !rows.has(textOf(name)))
      if (missing.length === 0) return rows
    }
  }

  function createAlone(creation: Creation<Name>): Promise<R | undefined> {
    const text = textOf(creation.name)
    const pending = createdAlone.get(text)
    if (pending) return pending
    const created = createAll([creation], new Map())
      .then(() => cache.get(text))
      .finally(() => createdAlone.delete(text))
    createdAlone.set(text, created)
    return created
  }

  return {
    load,

    cached(name) {
      const row = cache.get(textOf(name))
      return row?.incarnation === failover.incarnation ? row : undefined
    },

    async loadOrCreate(name, at) {
      const loaded = await load(name)
      if (loaded) return loaded
      const creation = { name, at }
      const row =
        (createdAlone.has(textOf(name)) ? undefined : await createTogether(creation)) ??
        (await createAlone(creation))
      if (!row) throw new Error(`No row for ${JSON.stringify(name)} after creating it`)
      return row
    },

    get incarnation() {
      return failover.incarnation
    },

    peek(text) {
      const row = cache.peek(text)
      return row?.incarnation === failover.incarnation ? row : undefined
    },

    add,

    forget: (name) => void cache.delete(textOf(name)),
  }
}

/** Maximum keys that are worked on at once. */
const MAX_LOADED = 250

/** Works on all keys requested in one tick together, in the order of their texts, in batches. */
function loadInBatches<Key, Value>(
  textOf: (key: Key) => string,
  work: (keys: readonly Key[], results: Results<Value>) => Promise<unknown>,
): (key: Key) => Promise<Value | undefined> {
  return loadPerTick<Key, Value | undefined>(async (keys) => {
    const unique = new Map(keys.map((key) => [textOf(key), key]))
    // One order, so that two processes that create the same rows don't deadlock.
    const ordered = [...unique].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, key]) => key)
    const results: Results<Value> = new Map()
    for (let from = 0; from < ordered.length; from += MAX_LOADED)
      await workOn(
        ordered.slice(from, from + MAX_LOADED),
        (batch) => work(batch, results),
        (key, error) => results.set(textOf(key), error),
      )
    return keys.map((key) => results.get(textOf(key)))
  })
}

/** What was found, by the text of its key. An error: its key alone fails. */
export type Results<Value> = Map<string, Value | Error>

/**
 * Works on items together. If they are too large for one statement, or an exception of our own fails the work, they are
 * bisected, so that only the items at fault fail.
 *
 * @throws what fails all of them
 */
export async function workOn<Item>(
  items: readonly Item[],
  work: (items: readonly Item[]) => Promise<unknown>,
  onFault: (item: Item, error: Error) => unknown,
): Promise<void> {
  try {
    await work(items)
  } catch (error) {
    if (!isOwnFault(error)) throw error
    const middle = items.length >> 1
    if (middle === 0) for (const item of items) onFault(item, errorOf(error))
    else for (const half of [items.slice(0, middle), items.slice(middle)]) await workOn(half, work, onFault)
  }
}
