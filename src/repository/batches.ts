import { getHeapStatistics } from 'node:v8'
import { LRUCache } from 'lru-cache'
import { loadPerTick } from '../core/eventLoop/loadPerTick.ts'
import type { FailoverDetector } from '../mysql/connections/failover.ts'
import { ER, hasErrorNumber, isOwnFault, leavesConnection } from '../mysql/errors.ts'
import { type Connection, type Database, inTransaction } from '../mysql/pool.ts'
import { errorOf } from '../rules/errors.ts'
import type { Row, Rows } from '../rules/rows.ts'

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
    for (let from = 0; from < ordered.length; from += MAX_LOADED) {
      await workOn(ordered.slice(from, from + MAX_LOADED), results)
    }
    return keys.map((key) => results.get(textOf(key)))
  })
}
