import { LRUCache } from 'lru-cache'
import type { RowDataPacket } from 'mysql2'
import { errorOf } from '../core/errors.ts'
import { loadPerTick } from '../core/eventLoop/loadPerTick.ts'
import type { Row, Rows } from '../core/rows.ts'
import { type Connection, type Database, inTransaction } from './connections/database.ts'
import { ER, hasErrorNumber, isOwnFault, leavesConnection } from './connections/errors.ts'
import type { FailoverDetector } from './connections/failover.ts'
import { bytes } from './literals.ts'

/** Maximum cached rows of a process: about 30 MB. */
const MAX_ROWS = 100_000
/** Maximum rows that are read or created at once. */
const BATCH = 250

export interface RowsOptions<Key, R> {
  textOf: (key: Key) => string
  /** Reads the existing rows, by the text of their key, in an incarnation of the database. */
  find: (connection: Connection, keys: readonly Key[], incarnation: number) => Promise<Map<string, R>>
  /** Runs in its own transaction. */
  make: (connection: Connection, keys: readonly Key[], at: Date) => Promise<void>
}

/** A row to create, and when. */
interface Creation<Key> {
  key: Key
  at: Date
}

/** Reads the rows behind names, and creates missing ones: all that are requested in one tick together. */
export function openRows<Key, R extends Row & { incarnation: number }>(
  database: Database,
  failover: FailoverDetector,
  options: RowsOptions<Key, R>,
): Rows<Key, R> {
  const { textOf, find, make } = options
  const cache = new LRUCache<string, R>({ max: MAX_ROWS })
  const load = loadInBatches<Key, R>(textOf, async (asked) =>
    keep(
      await database.withRetry((connection) => find(connection, [...asked.values()], failover.incarnation)),
    ),
  )
  const makeTogether = loadInBatches<Creation<Key>, R>(
    ({ key }) => textOf(key),
    async (asked) => keep(await database.withRetry((connection) => makeMissing(connection, asked))),
  )
  /** Rows being created alone, after a batch failed: another session has just created or locked one of them. */
  const apart = new Map<string, Promise<R | undefined>>()

  function keep(rows: Map<string, R>): Map<string, R> {
    for (const [text, row] of rows) cache.set(text, row)
    return rows
  }

  /** Creates missing rows, if all can be created at once. Returns those that exist afterwards. */
  async function makeMissing(
    connection: Connection,
    asked: ReadonlyMap<string, Creation<Key>>,
  ): Promise<Map<string, R>> {
    while (true) {
      const keys = [...asked.values()].map(({ key }) => key)
      const found = await find(connection, keys, failover.incarnation)
      const missing = [...asked].flatMap(([text, creation]) => (found.has(text) ? [] : [creation]))
      const [first] = missing
      if (!first) return found
      try {
        const keys = missing.map(({ key }) => key)
        await inTransaction(connection, () => make(connection, keys, first.at))
      } catch (error) {
        // Another session may have created one at the same time; then the next read finds it.
        if (hasErrorNumber(error, ER.DUP_ENTRY)) continue
        // A row that fails must not keep the others from being created.
        if (missing.length > 1 && leavesConnection(error)) return found
        throw error
      }
    }
  }

  function makeApart(creation: Creation<Key>): Promise<R | undefined> {
    const text = textOf(creation.key)
    const pending = apart.get(text)
    if (pending) return pending
    const made = database
      .withRetry((connection) => makeMissing(connection, new Map([[text, creation]])))
      .then((rows) => keep(rows).get(text))
      .finally(() => apart.delete(text))
    apart.set(text, made)
    return made
  }

  return {
    cached(key) {
      const row = cache.get(textOf(key))
      return row?.incarnation === failover.incarnation ? row : undefined
    },

    load,

    async loadOrCreate(key, at) {
      const found = await load(key)
      if (found) return found
      const isApart = apart.has(textOf(key))
      const row = (isApart ? undefined : await makeTogether({ key, at })) ?? (await makeApart({ key, at }))
      if (!row) throw new Error(`No row for ${JSON.stringify(key)} after creating it`)
      return row
    },

    forget(key) {
      cache.delete(textOf(key))
    },
  }
}

/**
 * Works on all keys requested in one tick together, in the order of their texts, in batches. If an exception of our own
 * fails a batch, its keys are retried one by one, so that only those at fault fail.
 *
 * @param work returns what it found, by the text of its key
 */
export function loadInBatches<Key, Value>(
  textOf: (key: Key) => string,
  work: (batch: ReadonlyMap<string, Key>) => Promise<ReadonlyMap<string, Value>>,
): (key: Key) => Promise<Value | undefined> {
  async function workOn(
    batch: readonly (readonly [string, Key])[],
    found: Map<string, Value | Error>,
  ): Promise<void> {
    try {
      for (const [text, value] of await work(new Map(batch))) found.set(text, value)
    } catch (cause) {
      const error = errorOf(cause)
      if (batch.length > 1 && isOwnFault(error)) for (const one of batch) await workOn([one], found)
      else for (const [text] of batch) found.set(text, error)
    }
  }

  return loadPerTick<Key, Value | undefined>(async (keys) => {
    const asked = new Map(keys.map((key) => [textOf(key), key]))
    // One order, so that two processes that create the same rows don't deadlock.
    const ordered = [...asked].sort(([a], [b]) => (a < b ? -1 : 1))
    const found = new Map<string, Value | Error>()
    for (let from = 0; from < ordered.length; from += BATCH) {
      await workOn(ordered.slice(from, from + BATCH), found)
    }
    return keys.map((key) => found.get(textOf(key)))
  })
}

/** Reads a namespace, and creates it if it doesn't exist. */
export async function openNamespace(connection: Connection, name: string): Promise<RowDataPacket> {
  const select = `select id, time_zone, periods from namespace where name = ${bytes(name)}`
  const [rows] = await connection.query<RowDataPacket[]>(select)
  if (rows[0]) return rows[0]
  await connection.query(`insert into namespace (name) values (${bytes(name)})`)
  const [[made]] = await connection.query<RowDataPacket[]>(select)
  if (!made) throw new Error(`No namespace ${JSON.stringify(name)} after creating it`)
  return made
}
