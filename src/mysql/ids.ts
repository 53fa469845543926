import { LRUCache } from 'lru-cache'
import type { ResultSetHeader, RowDataPacket } from 'mysql2'
import type { Bounds } from '../core/bounds.ts'
import type { Rows } from '../core/lane.ts'
import { type CountingRow, type CountingTable, countingRow } from './counting.ts'
import { type Connection, type Database, inTransaction } from './database.ts'
import { ER, hasErrorNumber } from './errors.ts'
import { bytes } from './literals.ts'

/** The id behind a name, the version of the definition that it was read with, and what that says. */
export interface Identity {
  id: number
  version: number
  bounds?: Bounds | undefined
}

/** How many rows a process remembers: about 30 MB at most. */
const REMEMBERED = 100_000
/** The most that are looked for, or made, at once. */
const BATCH = 1000

export interface RowsOptions<Key> {
  table: CountingTable
  textOf: (key: Key) => string
  /** Finds those that are there, by their texts. */
  find: (connection: Connection, keys: readonly Key[]) => Promise<Map<string, Identity>>
  /** Runs in a transaction of its own. */
  make: (connection: Connection, keys: readonly Key[], at: Date) => Promise<void>
}

/** What is looked for in one turn of the event loop, and found together. */
interface Turn<Key> {
  asked: Map<string, Key>
  found: Promise<Map<string, CountingRow>>
}

/** Finds the rows behind names, and makes what isn't there yet. */
export function openRows<Key>(database: Database, options: RowsOptions<Key>): Rows<Key, CountingRow> {
  const { table, textOf, find, make } = options
  const known = new LRUCache<string, CountingRow>({ max: REMEMBERED })
  let turn: Turn<Key> | undefined

  function openTurn(at: Date): Turn<Key> {
    const asked = new Map<string, Key>()
    const found = new Promise<Map<string, CountingRow>>((resolve) => {
      setImmediate(() => {
        turn = undefined
        resolve(findAll(asked, at))
      })
    })
    return { asked, found }
  }

  async function findAll(asked: Map<string, Key>, at: Date): Promise<Map<string, CountingRow>> {
    // In one order, so that of two who make the same at the same time one waits for the other.
    const texts = [...asked.keys()].sort()
    const found = new Map<string, CountingRow>()
    for (let from = 0; from < texts.length; from += BATCH) {
      const batch = new Map(texts.slice(from, from + BATCH).map((text) => [text, asked.get(text) as Key]))
      const identities = await database.repeatable((connection) => findOrMake(connection, batch, at))
      for (const [text, identity] of identities) {
        const row = countingRow(table, identity)
        known.set(text, row)
        found.set(text, row)
      }
    }
    return found
  }

  async function findOrMake(
    connection: Connection,
    asked: Map<string, Key>,
    at: Date,
  ): Promise<Map<string, Identity>> {
    while (true) {
      const found = await find(connection, [...asked.values()])
      const missing = [...asked].flatMap(([text, key]) => (found.has(text) ? [] : [key]))
      if (missing.length === 0) return found
      // Somebody else may make one at the same time: one succeeds, and the next look finds it.
      await inTransaction(connection, () => make(connection, missing, at)).catch(unlessDuplicate)
    }
  }

  return {
    known: (key) => known.get(textOf(key)),

    async find(key, at) {
      turn ??= openTurn(at)
      const text = textOf(key)
      turn.asked.set(text, key)
      const row = (await turn.found).get(text)
      if (!row) throw new Error(`${table} has no row for ${JSON.stringify(key)}, though it was made`)
      return row
    },

    forget(key) {
      known.delete(textOf(key))
    },
  }
}

function unlessDuplicate(error: unknown): void {
  if (!hasErrorNumber(error, ER.DUP_ENTRY)) throw error
}

/** The id of a namespace, made if it isn't there. Runs within a transaction that makes something in it. */
export async function namespaceId(connection: Connection, name: string): Promise<number> {
  const [rows] = await connection.query<RowDataPacket[]>(
    `select id from namespace where name = ${bytes(name)}`,
  )
  if (rows[0]) return rows[0].id
  const [made] = await connection.query<ResultSetHeader>(
    `insert into namespace (name) values (${bytes(name)})`,
  )
  return made.insertId
}
