import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { useAPQ } from '@graphql-yoga/plugin-apq'
import { GraphQLError } from 'graphql'
import type { GraphQLParams, Plugin } from 'graphql-yoga'
import { LRUCache } from 'lru-cache'
import type { ServerContext } from './idempotencyHeader.ts'
import type { KnownDocuments } from './known.ts'
import { tooBusy } from './refuse.ts'

/** What the texts may take that are kept, and those that were offered and aren't validated yet, in bytes. */
const MAX_BYTES = 8_000_000
const MAX_OFFERED_BYTES = 2_000_000

const BYTES_A_CHARACTER = 2
/** A hash, and what the cache has for each entry. */
const BYTES_AN_ENTRY = 300

/**
 * Automatic persisted queries: a client sends the SHA-256 of a document instead of its text, and the text with it when
 * the hash isn't known. A text is kept once it was validated, so that nobody fills the cache with what is none.
 *
 * @param hasRoom asked before a text takes the place of a hash
 */
export function persistedQueries(
  known: Pick<KnownDocuments, 'get'>,
  hasRoom: (request: IncomingMessage, text: string) => boolean,
): Plugin<object, ServerContext> {
  const texts = new LRUCache<string, string>({ maxSize: MAX_BYTES, sizeCalculation: bytesOf })
  /** Hashes by the texts that were offered. */
  const offered = new LRUCache<string, string>({
    maxSize: MAX_OFFERED_BYTES,
    sizeCalculation: (hash, text) => bytesOf(text) + bytesOf(hash),
  })
  const { onParams } = useAPQ({
    hash: async (text) => createHash('sha256').update(text).digest('hex'),
    store: {
      get: (hash) => texts.get(hash),
      set(hash, text) {
        // What runs as compiled code isn't validated again.
        if (known.get(text)) texts.set(hash, text)
        else offered.set(text, hash)
      },
    },
  })

  /** Puts the text of a document in the place of its hash, or keeps the one that came with it. */
  async function exchange(payload: Parameters<NonNullable<typeof onParams>>[0], request?: IncomingMessage) {
    const found: GraphQLParams[] = []
    await Promise.resolve(onParams?.({ ...payload, setParams: (params) => found.push(params) })).catch(refuse)
    for (const params of found) {
      if (request && !hasRoom(request, params.query ?? '')) throw noRoom()
      payload.setParams(params)
    }
  }

  return {
    onParams(payload) {
      const { query, extensions } = payload.params
      // Yoga itself refuses what isn't a text.
      const isText = query == null || typeof query === 'string'
      if (extensions?.persistedQuery == null || !isText) return undefined
      return exchange(payload, payload.context.req)
    },

    onValidate({ params: { documentAST } }) {
      const text = documentAST.loc?.source.body ?? ''
      const hash = offered.get(text)
      if (hash === undefined) return undefined
      offered.delete(text)
      return ({ valid }) => {
        if (valid) texts.set(hash, text)
      }
    },
  }
}

/** Refused as a document that can't be parsed, and not to be remembered: the next request has the text. */
function refuse(error: unknown): never {
  if (!(error instanceof GraphQLError)) throw error
  const http = { spec: true, status: 400, headers: { 'cache-control': 'no-store' } }
  throw new GraphQLError(error.message, { extensions: { code: error.extensions.code, http } })
}

function noRoom(): GraphQLError {
  const { message, extensions } = tooBusy()
  const http = { status: 503, headers: { 'retry-after': '1' } }
  return new GraphQLError(message, { extensions: { ...extensions, http } })
}

function bytesOf(text: string): number {
  return text.length * BYTES_A_CHARACTER + BYTES_AN_ENTRY
}
