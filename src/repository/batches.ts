import { getHeapStatistics } from 'node:v8'
import DataLoader from 'dataloader'
import { LRUCache } from 'lru-cache'
import { ER, hasErrorNumber, isOwnFault, leavesConnection } from '../mysql/errors.ts'
import type { FailoverDetector } from '../mysql/health.ts'
import { type Connection, type Database, inTransaction } from '../mysql/pool.ts'
import { integer, list, select } from '../mysql/sql.ts'
import { errorOf, isTooLarge, NthError } from '../rules/errors.ts'
import type { Row, Rows } from '../rules/rows.ts'

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

/** Memory of a cached row with its name, in bytes: measured with short names. */
const BYTES_PER_ROW = 350
/** Maximum cached rows of a kind: an eighth of the heap, so a million in the 4 GB that Node has by default. */
const MAX_CACHED = Math.floor(getHeapStatistics().heap_size_limit / 8 / BYTES_PER_ROW)

interface RowCacheOptions<Name, R> {
  textOf: (name: Name) => string
  /** Reads the existing rows, by the text of their name, in an incarnation of the database. */
  read: (connection: Connection, names: readonly Name[], incarnation: number) => Promise<Map<string, R>>
  /** Runs in its own transaction. */
  create: (connection: Connection, names: readonly Name[], at: Date) => Promise<void>
}

interface Creation<Name> {
  name: Name
  at: Date
}

/** Reads the rows behind names, and creates missing ones: all that are requested in one tick together. */
export function createRowCache<Name, R extends Row & { incarnation: number }>(
  database: Database,
  failover: FailoverDetector,
  { textOf, read, create }: RowCacheOptions<Name, R>,
): Rows<Name, R> {
  // With `max`, space for all of them would be allocated at once.
  const cache = new LRUCache<string, R>({ maxSize: MAX_CACHED, sizeCalculation: () => 1 })
  const load = loadInBatches<Name, R>(textOf, async (names) =>
    cacheAll(await database.withRetry((connection) => read(connection, names, failover.incarnation))),
  )
  const createAll = async (creations: readonly Creation<Name>[]) =>
    cacheAll(await database.withRetry((connection) => createMissing(connection, creations)))
  const createTogether = loadInBatches<Creation<Name>, R>(({ name }) => textOf(name), createAll)
  /** Rows being created alone, after a batch failed: another session has just created or locked one of them. */
  const createdAlone = new Map<string, Promise<R | undefined>>()

  function cacheAll(rows: Map<string, R>): Map<string, R> {
    for (const [text, row] of rows) cache.set(text, row)
    return rows
  }

  /** Creates rows that `load` didn't find, if all can be created at once. Returns those that exist afterwards. */
  async function createMissing(connection: Connection, creations: readonly Creation<Name>[]) {
    const names = creations.map(({ name }) => name)
    const readAll = () => read(connection, names, failover.incarnation)
    let missing = creations
    while (true) {
      const [first] = missing
      const missingNames = missing.map(({ name }) => name)
      try {
        if (first) await inTransaction(connection, () => create(connection, missingNames, first.at))
      } catch (error) {
        const isTaken = hasErrorNumber(error, ER.DUP_ENTRY)
        // A row that fails must not keep the others from being created.
        if (!isTaken && missing.length > 1 && leavesConnection(error)) return readAll()
        // Another session may have created one at the same time; then it is found.
        if (!isTaken) throw error
      }
      const found = await readAll()
      missing = creations.filter(({ name }) => !found.has(textOf(name)))
      if (missing.length === 0) return found
    }
  }

  function createAlone(creation: Creation<Name>): Promise<R | undefined> {
    const text = textOf(creation.name)
    const pending = createdAlone.get(text)
    if (pending) return pending
    const created = createAll([creation])
      .then((rows) => rows.get(text))
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
      const found = await load(name)
      if (found) return found
      const creation = { name, at }
      const row =
        (createdAlone.has(textOf(name)) ? undefined : await createTogether(creation)) ??
        (await createAlone(creation))
      if (!row) throw new Error(`No row for ${JSON.stringify(name)} after creating it`)
      return row
    },

    forget: (name) => void cache.delete(textOf(name)),
  }
}

/** Maximum keys that are worked on at once. */
const MAX_LOADED = 250

/**
 * Works on all keys requested in one tick together, in the order of their texts, in batches. A batch that is too
 * large for one statement, or is failed by an exception of our own, is bisected, so that only the keys at fault fail.
 *
 * @param work returns what it found, by the text of its key
 */
function loadInBatches<Key, Value>(
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
    for (let from = 0; from < ordered.length; from += MAX_LOADED) {
      await workOn(ordered.slice(from, from + MAX_LOADED), results)
    }
    return keys.map((key) => results.get(textOf(key)))
  })
}

/** What a scheduled job runs with. */
export interface JobContext {
  database: Database
  /** By the database's clock: a process whose clock is ahead must not delete anything too early. */
  now: Date
  /** Called between steps; false: stop. */
  shouldContinue: () => boolean
}

/** Rows that one transaction of a sweep changes: takes a few milliseconds. */
export const BATCH = 500

/** Repeats work until it finds less than a full batch. Returns the number of rows. */
export async function inBatches(
  { database, shouldContinue }: Omit<JobContext, 'now'>,
  work: (connection: Connection) => Promise<number>,
): Promise<number> {
  let total = 0
  while (shouldContinue()) {
    const found = await database.withRetry(work)
    total += found
    if (found < BATCH) break
  }
  return total
}

/** Deletes the rows that a select of at most `BATCH` finds, until there are no more. */
export async function deleteFound<Row>(context: JobContext, find: string, removal: (row: Row) => string) {
  await inBatches(context, async (connection) =>
    deleteEach(connection, (await select<Row>(connection, find)).map(removal)),
  )
}

/** Deletes the rows whose ids a select finds, until there are no more: first what belongs to them, then themselves. */
export async function deleteWithParts(
  { database, shouldContinue }: JobContext,
  { find, table }: { find: string; table: string },
  deleteParts: (idList: string) => Promise<void>,
): Promise<void> {
  while (shouldContinue()) {
    const found = await database.withRetry((connection) => select<{ id: number }>(connection, find))
    if (found.length === 0) return
    const ids = found.map(({ id }) => id)
    await deleteParts(list(ids, integer))
    if (!shouldContinue()) return
    const deletions = ids.map((id) => `delete from ${table} where id = ${integer(id)}`)
    await database.withRetry((connection) => deleteEach(connection, deletions))
  }
}

/** Deletes in one transaction, by full primary keys: otherwise a server may scan, and lock, all of a small table. */
async function deleteEach(connection: Connection, statements: readonly string[]): Promise<number> {
  if (statements.length > 0) await inTransaction(connection, () => executeEach(connection, statements))
  return statements.length
}

export async function executeEach(connection: Connection, statements: readonly string[]): Promise<void> {
  for (const statement of statements) await connection.query(statement)
}
