import { createHash } from 'node:crypto'
import { useAPQ } from '@graphql-yoga/plugin-apq'
import { GraphQLError } from 'graphql'
import type { GraphQLParams, Plugin } from 'graphql-yoga'
import { LRUCache } from 'lru-cache'
import type { Reserve } from '../../connections/connections.ts'
import { overloaded } from '../../connections/httpError.ts'
import type { ServerContext } from '../idempotencyHeader.ts'
import type { DocumentCache } from './documentCache.ts'
import { HEAP_BYTES_A_CHARACTER } from './documentLimits.ts'

/** Maximum memory of stored texts, in bytes. */
const MAX_BYTES = 8_000_000

const BYTES_A_CHARACTER = 2
/** A hash, and the overhead of the cache for each entry. */
const BYTES_AN_ENTRY = 300

/** Automatic persisted queries, by SHA-256. Only texts in the document cache are returned: they passed validation. */
export function persistedQueries(cache: DocumentCache, reserve: Reserve): Plugin<object, ServerContext> {
  const texts = new LRUCache<string, string>({
    maxSize: MAX_BYTES,
    sizeCalculation: ({ length }) => length * BYTES_A_CHARACTER + BYTES_AN_ENTRY,
  })
  const { onParams } = useAPQ({
    hash: async (text) => createHash('sha256').update(text).digest('hex'),
    store: {
      get(hash) {
        const text = texts.get(hash)
        return text !== undefined && cache.get(text) ? text : undefined
      },
      set: (hash, text) => texts.set(hash, text),
    },
  })

  return {
    onParams(payload) {
      const { query, extensions } = payload.params
      // Yoga itself rejects a query that isn't a string.
      const isText = query == null || typeof query === 'string'
      if (extensions?.persistedQuery == null || !isText) return undefined
      const { req } = payload.context
      const setParams = (params: GraphQLParams) => {
        const { length } = params.query ?? ''
        if (req && !reserve(req, length * HEAP_BYTES_A_CHARACTER, length)) {
          const { status, message, extensions } = overloaded()
          const http = { status, headers: { 'retry-after': '1' } }
          throw new GraphQLError(message, { extensions: { ...extensions, http } })
        }
        payload.setParams(params)
      }
      return Promise.resolve(onParams?.({ ...payload, setParams })).catch(rejectUncached)
    },
  }
}

/** An unknown hash is rejected like a syntax error: the next request includes the text. */
function rejectUncached(error: unknown): never {
  if (!(error instanceof GraphQLError) || error.extensions.code === 'UNAVAILABLE') throw error
  const http = { spec: true, status: 400 }
  throw new GraphQLError(error.message, { extensions: { code: error.extensions.code, http } })
}
