import { LRUCache } from 'lru-cache'
import type { Connection } from '../mysql/connection.ts'
import { type Database, joined } from '../mysql/pool.ts'
import { JOINED } from '../mysql/slots.ts'
import { bytes, instant, list, pageBy, timeOf } from '../mysql/sql.ts'
import type { Page } from '../rules/counter.ts'
import { NthError } from '../rules/errors.ts'
import type { NewDocument, TrustedDocument } from '../rules/trustedDocument.ts'
import { batchReads } from './batches.ts'

/** How long a document that was read is used, in milliseconds: then it may have been removed by another process. */
const FRESH_MS = 2000
const MAX_CACHED_CHARACTERS = 8_000_000

export type TrustedDocuments = ReturnType<typeof openTrustedDocuments>

/** Documents that were registered, by their IDs. Those in use are in memory for some seconds. */
export function openTrustedDocuments(database: Database, definitions: Database) {
  const cached = new LRUCache<string, string>({
    maxSize: MAX_CACHED_CHARACTERS,
    sizeCalculation: (text, id) => text.length + id.length,
    ttl: FRESH_MS,
  })
  const reads = batchReads<{ id: string }, { id: string; text?: string }>(
    ({ id }) => id,
    joined(database, (connection, keys: readonly { id: string }[]) =>
      readDocuments(connection, `where id in (${list(keys, ({ id }) => bytes(id))})`),
    ),
    ({ id }) => ({ id }),
  )

  return {
    /**
     * The text of a document; undefined: there is none with this ID. Synchronous if it is in memory.
     *
     * @throws {NthError} UNAVAILABLE
     */
    find(id: string): string | undefined | Promise<string | undefined> {
      return cached.get(id) ?? load(id)
    },

    /**
     * Adds documents, all or none. One that is already there changes nothing.
     *
     * @throws {NthError} BAD_USER_INPUT if an ID has another text; UNAVAILABLE
     */
    add(documents: readonly NewDocument[], owner = JOINED): Promise<TrustedDocument[]> {
      return definitions.withRetry(owner, (connection) =>
        connection.inTransaction(() => addDocuments(connection, documents)),
      )
    },

    /**
     * Removes a document: in other processes within two seconds.
     *
     * @throws {NthError} NOT_FOUND, UNAVAILABLE
     */
    async remove(id: string, owner = JOINED): Promise<TrustedDocument> {
      const which = `where id = ${bytes(id)}`
      const [document] = await definitions.withRetry(owner, (connection) => readDocuments(connection, which))
      if (!document) throw new NthError('NOT_FOUND', `There is no trusted document ${JSON.stringify(id)}.`)
      await definitions.withRetry(owner, (connection) =>
        connection.query(`delete from trusted_document ${which}`),
      )
      cached.delete(id)
      return document
    },

    /** In the order of their IDs. */
    list: (page: Page<string>, owner = JOINED) =>
      database.withRetry(owner, (connection) => listDocuments(connection, page)),
  }

  async function load(id: string): Promise<string | undefined> {
    const { text } = await reads.read({ id })
    if (text !== undefined) cached.set(id, text)
    return text
  }
}

/** Documents per statement. */
const AT_ONCE = 50

async function addDocuments(connection: Connection, documents: readonly NewDocument[]) {
  const at = await timeOf(connection)
  // In one order in every process, so that they don't deadlock.
  const ordered = documents.toSorted((left, right) => (left.id < right.id ? -1 : 1))
  const stored = new Map<string, TrustedDocument>()
  for (let from = 0; from < ordered.length; from += AT_ONCE) {
    const batch = ordered.slice(from, from + AT_ONCE)
    await connection.query(insertDocuments(batch, at))
    const ids = list(batch, ({ id }) => bytes(id))
    for (const document of await readDocuments(connection, `where id in (${ids}) for update`))
      stored.set(document.id, document)
  }
  return documents.map(({ id, text }, index) => {
    const document = stored.get(id)
    if (document?.text === text) return document
    const message = `The ID ${JSON.stringify(id)} is that of another text. Nothing was changed.`
    throw new NthError('BAD_USER_INPUT', message, { argument: `documents.${index}.documentId` })
  })
}

/** Inserts documents whose IDs are not there yet. */
export function insertDocuments(documents: readonly NewDocument[], at: Date): string {
  const values = list(documents, ({ id, text }) => `(${bytes(id)}, ${bytes(text)}, ${instant(at)})`)
  return `insert into trusted_document (id, text, added_at) values ${values} on duplicate key update id = values(id)`
}

export function listDocuments(connection: Connection, page: Page<string>): Promise<TrustedDocument[]> {
  return readDocuments(connection, pageBy('id', page, bytes))
}

async function readDocuments(connection: Connection, rest: string): Promise<TrustedDocument[]> {
  const rows = await connection.select<{ id: Buffer; text: Buffer; added_at: Date }>(
    `select id, text, added_at from trusted_document ${rest}`,
  )
  return rows.map(({ id, text, added_at: addedAt }) => ({ id: String(id), text: String(text), addedAt }))
}
