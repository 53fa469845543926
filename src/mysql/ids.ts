import { LRUCache } from 'lru-cache'
import type { ResultSetHeader, RowDataPacket } from 'mysql2'
import type { Rows } from '../core/lane.ts'
import { type CountingRow, type CountingTable, countingRow } from './counting.ts'
import { type Connection, type Database, inTransaction } from './database.ts'
import { ER, hasErrorNumber } from './errors.ts'
import { bytes } from './literals.ts'

/** The id behind a name, and the version of the definition that it was read with. */
export interface Identity {
  id: number
  version: number
}

/** How many rows a process remembers: about 30 MB at most. */
const REMEMBERED = 100_000

export interface RowsOptions<Key> {
  table: CountingTable
  textOf: (key: Key) => string
  find: (connection: Connection, key: Key) => Promise<Identity | undefined>
  /** Runs in a transaction of its own. */
  make: (connection: Connection, key: Key, at: Date) => Promise<void>
}

/** Finds the rows behind names, and makes what isn't there yet. */
export function openRows<Key>(database: Database, options: RowsOptions<Key>): Rows<Key, CountingRow> {
  const { table, textOf, find, make } = options
  const known = new LRUCache<string, CountingRow>({ max: REMEMBERED })
  const asked = new Map<string, Promise<CountingRow>>()

  async function findOrMake(connection: Connection, key: Key, at: Date): Promise<CountingRow> {
    while (true) {
      const found = await find(connection, key)
      if (found) return countingRow(table, found.id, found.version)
      // Somebody else may make it at the same time: one succeeds, and the next look finds it.
      await inTransaction(connection, () => make(connection, key, at)).catch(unlessDuplicate)
    }
  }

  return {
    known: (key) => known.get(textOf(key)),

    async find(key, at) {
      const text = textOf(key)
      const underWay = asked.get(text)
      if (underWay) return underWay
      const asking = database.repeatable((connection) => findOrMake(connection, key, at))
      asked.set(text, asking)
      try {
        const row = await asking
        known.set(text, row)
        return row
      } finally {
        asked.delete(text)
      }
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

/** The identity that a `select id, version` finds. */
export async function findIdentity(connection: Connection, statement: string): Promise<Identity | undefined> {
  const [rows] = await connection.query<RowDataPacket[]>(statement)
  const row = rows[0]
  return row && { id: row.id, version: row.version }
}
