import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { useAPQ } from '@graphql-yoga/plugin-apq'
import { GraphQLError } from 'graphql'
import type { GraphQLParams, Plugin } from 'graphql-yoga'
import { LRUCache } from 'lru-cache'
import { overloaded } from '../connections/sendError.ts'
import type { DocumentCache } from './documentCache.ts'
import type { ServerContext } from './idempotencyHeader.ts'

/** Maximum memory of cached texts, and of those that were sent and aren't validated yet, in bytes. */
const MAX_BYTES = 8_000_000
const MAX_UNVALIDATED_BYTES = 2_000_000

const BYTES_A_CHARACTER = 2
/** A hash, and the overhead of the cache for each entry. */
const BYTES_AN_ENTRY = 300

/**
 * Automatic persisted queries: a client sends the SHA-256 of a document instead of its text, and adds the text if the
 * hash is unknown. A text is cached once it was validated, so that the cache can't be filled with invalid ones.
 *
 * @param reserve reserves memory for a text that replaces a hash; returns whether there is enough
 */
export function persistedQueries(
  cache: Pick<DocumentCache, 'get'>,
  reserve: (request: IncomingMessage, text: string) => boolean,
): Plugin<object, ServerContext> {
  const texts = new LRUCache<string, string>({ maxSize: MAX_BYTES, sizeCalculation: bytesOf })
  /** Hashes by the texts that were sent. */
  const unvalidated = new LRUCache<string, string>({
    maxSize: MAX_UNVALIDATED_BYTES,
    sizeCalculation: (hash, text) => bytesOf(text) + bytesOf(hash),
  })
  const { onParams } = useAPQ({
    hash: async (text) => createHash('sha256').update(text).digest('hex'),
    store: {
      get: (hash) => texts.get(hash),
      set(hash, text) {
        // Already validated. If it runs as compiled code, `onValidate` isn't called.
        if (cache.get(text)) texts.set(hash, text)
        else unvalidated.set(text, hash)
      },
    },
  })

  /** Replaces a hash by the text of its document, or stores the text that was sent with it. */
  async function exchange(payload: Parameters<NonNullable<typeof onParams>>[0], request?: IncomingMessage) {
    const found: GraphQLParams[] = []
    await Promise.resolve(onParams?.({ ...payload, setParams: (params) => found.push(params) })).catch(
      notCached,
    )
    for (const params of found) {
      if (request && !reserve(request, params.query ?? '')) throw noMemory()
      payload.setParams(params)
    }
  }

  return {
    onParams(payload) {
      const { query, extensions } = payload.params
      // Yoga itself rejects a query that isn't a string.
      const isText = query == null || typeof query === 'string'
      if (extensions?.persistedQuery == null || !isText) return undefined
      return exchange(payload, payload.context.req)
    },

    onValidate({ params: { documentAST } }) {
      const text = documentAST.loc?.source.body ?? ''
      const hash = unvalidated.get(text)
      if (hash === undefined) return undefined
      unvalidated.delete(text)
      return ({ valid }) => {
        if (valid) texts.set(hash, text)
      }
    },
  }
}

/** Rejected like a syntax error, but not cacheable: the next request includes the text. */
function notCached(error: unknown): never {
  if (!(error instanceof GraphQLError)) throw error
  const http = { spec: true, status: 400, headers: { 'cache-control': 'no-store' } }
  throw new GraphQLError(error.message, { extensions: { code: error.extensions.code, http } })
}

function noMemory(): GraphQLError {
  const { message, extensions } = overloaded()
  const http = { status: 503, headers: { 'retry-after': '1' } }
  return new GraphQLError(message, { extensions: { ...extensions, http } })
}

function bytesOf(text: string): number {
  return text.length * BYTES_A_CHARACTER + BYTES_AN_ENTRY
}
