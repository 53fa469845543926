import { hash } from 'node:crypto'
import type { GraphQLParams } from 'graphql-yoga'
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import { HttpError } from '../../connections/httpError.ts'
import type { JsonType } from '../../parameters.ts'
import type { DocumentCache } from './documentCache.ts'

/** Maximum memory of stored texts, in bytes. */
const MAX_BYTES = 8_000_000

const BYTES_A_CHARACTER = 2
/** A hash, and the overhead of the cache for each entry. */
const BYTES_AN_ENTRY = 300

/** What a request has as `extensions.persistedQuery`. */
const extension = z.object({ version: z.literal(1), sha256Hash: z.string() })

export type PersistedQueries = ReturnType<typeof createPersistedQueries>

/**
 * Automatic persisted queries, by SHA-256, as Apollo's clients send them. Only texts in the document cache are returned:
 * they passed validation.
 */
export function createPersistedQueries(cache: DocumentCache) {
  const texts = new LRUCache<string, string>({
    maxSize: MAX_BYTES,
    sizeCalculation: ({ length }) => length * BYTES_A_CHARACTER + BYTES_AN_ENTRY,
  })

  return {
    /**
     * Adds the text to a request that has only its hash, and stores that of one with both. An unknown hash is rejected
     * like a syntax error, with a status by the type of the response: the next request includes the text.
     */
    resolve(params: GraphQLParams, type: JsonType): GraphQLParams | HttpError {
      const { data: sent } = extension.safeParse(params.extensions?.persistedQuery)
      const { query } = params
      // Yoga itself rejects a query that isn't a string.
      if (!sent || (query != null && typeof query !== 'string')) return params
      const status = type === 'application/json' ? 200 : 400
      if (query != null) {
        if (hash('sha256', query) !== sent.sha256Hash)
          return new HttpError(status, 'PERSISTED_QUERY_MISMATCH', 'PersistedQueryMismatch')
        texts.set(sent.sha256Hash, query)
        return params
      }
      const text = texts.get(sent.sha256Hash)
      if (text === undefined || !cache.get(text))
        return new HttpError(status, 'PERSISTED_QUERY_NOT_FOUND', 'PersistedQueryNotFound')
      return { ...params, query: text }
    },
  }
}
