import { LRUCache } from 'lru-cache'
import type { ResultSetHeader, RowDataPacket } from 'mysql2'
import { type Connection, type Database, inTransaction } from './database.ts'
import { ER, hasErrorNumber } from './errors.ts'
import { bytes } from './literals.ts'

/** The id behind a name, and the version of the definition that it was read with. */
export interface Identity {
  id: number
  version: number
}

/** Finds the ids of names, making what isn't there yet. */
export interface Ids<Key> {
  /** `at` is when it was made, if it has to be. */
  of(key: Key, at: Date): Promise<Identity>
  /** Says that an identity is no longer true, so that it is looked up again. */
  forget(key: Key): void
}

/** How many identities a process remembers: about 20 MB at most. */
const REMEMBERED = 100_000

export function openIds<Key>(
  database: Database,
  textOf: (key: Key) => string,
  find: (connection: Connection, key: Key) => Promise<Identity | undefined>,
  make: (connection: Connection, key: Key, at: Date) => Promise<void>,
): Ids<Key> {
  const known = new LRUCache<string, Identity>({ max: REMEMBERED })
  const asked = new Map<string, Promise<Identity>>()

  async function findOrMake(connection: Connection, key: Key, at: Date): Promise<Identity> {
    while (true) {
      const found = await find(connection, key)
      if (found) return found
      // Somebody else may make it at the same time: one succeeds, and the next look finds it.
      await inTransaction(connection, () => make(connection, key, at)).catch(unlessDuplicate)
    }
  }

  return {
    async of(key, at) {
      const text = textOf(key)
      const remembered = known.get(text)
      if (remembered) return remembered
      const underWay = asked.get(text)
      if (underWay) return underWay
      const asking = database.repeatable((connection) => findOrMake(connection, key, at))
      asked.set(text, asking)
      try {
        const identity = await asking
        known.set(text, identity)
        return identity
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

/** How often a change looks its row up anew before it gives up. */
const ATTEMPTS = 3

/**
 * Runs a change on the row behind a key. A change that answers `undefined` found no such row: the name was
 * deleted or defined anew since it was looked up, so it is looked up again.
 */
export async function changeIdentified<Key>(
  ids: Ids<Key>,
  key: Key,
  at: Date,
  change: (identity: Identity) => Promise<number | undefined>,
): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const result = await change(await ids.of(key, at))
    if (result !== undefined) return result
    ids.forget(key)
  }
  throw new Error(`The row that counts is missing for ${JSON.stringify(key)}`)
}
