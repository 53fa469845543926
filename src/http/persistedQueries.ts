import { hash } from 'node:crypto'
import type { GraphQLParams } from 'graphql-yoga'
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import type { TrustedDocuments } from '../repository/trustedDocuments.ts'
import { NthError } from '../rules/errors.ts'
import { type Caller, isUnrestricted } from '../rules/rights.ts'
import { documentIdFault, plainDocumentId } from '../rules/trustedDocument.ts'
import type { DocumentCache } from './documents.ts'
import { HttpError, httpErrorFor } from './errors.ts'
import type { JsonType } from './parameters.ts'

/** Maximum memory of stored texts, in bytes. */
const MAX_BYTES = 8_000_000

const BYTES_A_CHARACTER = 2
/** A hash, and the overhead of the cache for each entry. */
const BYTES_AN_ENTRY = 300

/** What a request has as `extensions.persistedQuery`. */
const extension = z.object({ version: z.literal(1), sha256Hash: z.string() })

/** Parameters with the ID of a document, as GraphQL over HTTP has it, and as Relay's own servers have it. */
type SentParams = GraphQLParams & { documentId?: unknown; doc_id?: unknown }

interface PersistedQueryOptions {
  cache: DocumentCache
  trusted: Pick<TrustedDocuments, 'find'>
  /** Whether all but administrators may run trusted documents only. */
  trustedOnly: boolean
}

export type PersistedQueries = ReturnType<typeof openPersistedQueries>

/**
 * Requests that name their document instead of sending it: a trusted document by its ID, or an automatic persisted query
 * by its SHA-256, as Apollo's clients send both. The text of an automatic one is found only once it has passed validation.
 */
export function openPersistedQueries({ cache, trusted, trustedOnly }: PersistedQueryOptions) {
  const texts = new LRUCache<string, string>({
    maxSize: MAX_BYTES,
    sizeCalculation: ({ length }) => length * BYTES_A_CHARACTER + BYTES_AN_ENTRY,
  })

  /** @throws {HttpError} as `unknown` makes it if there is no document with this ID; 503 if that can't be read */
  async function withTrusted(params: GraphQLParams, id: string, unknown: () => HttpError) {
    if (documentIdFault(id)) throw unknown()
    try {
      const query = await trusted.find(id)
      if (query !== undefined) return { ...params, query }
    } catch (error) {
      throw error instanceof NthError ? httpErrorFor(error) : error
    }
    throw unknown()
  }

  return {
    /**
     * The parameters of a request with the text of its document.
     *
     * @throws {HttpError} 403 if the caller may run trusted documents only, and this is not one; for an unknown ID like a
     *   syntax error, with a status by the type of the response
     */
    resolve(params: SentParams, caller: Caller, type: JsonType): GraphQLParams | Promise<GraphQLParams> {
      const allowed = caller.key?.documents
      const isBound = allowed != null || (trustedOnly && !isAdministrator(caller))
      const sent = params.extensions?.persistedQuery
      // Nearly all requests.
      if (!isBound && sent == null && !('documentId' in params) && !('doc_id' in params)) return params
      const { documentId: standardId, doc_id: relayId, ...rest } = params
      const documentId = standardId ?? relayId
      if (documentId != null && typeof documentId !== 'string')
        throw new HttpError(400, 'BAD_REQUEST', 'The ID of a document must be a string.')
      const automatic = extension.safeParse(sent).data?.sha256Hash
      const id = plainDocumentId(documentId ?? automatic ?? '')
      if (isBound) {
        if (allowed && !allowed.includes(id)) throw untrusted()
        return withTrusted(rest, id, untrusted)
      }
      const status = type === 'application/json' ? 200 : 400
      const notFound = (message: string) => new HttpError(status, 'PERSISTED_QUERY_NOT_FOUND', message)
      if (documentId != null)
        return withTrusted(rest, id, () => notFound('There is no trusted document with this ID.'))
      const { query } = rest
      // Yoga itself rejects a query that isn't a string.
      if (automatic === undefined || (query != null && typeof query !== 'string')) return rest
      if (query != null) {
        if (hash('sha256', query) !== automatic)
          throw new HttpError(status, 'PERSISTED_QUERY_MISMATCH', 'PersistedQueryMismatch')
        texts.set(automatic, query)
        return rest
      }
      const text = texts.get(automatic)
      if (text === undefined || !cache.get(text))
        return withTrusted(rest, id, () => notFound('PersistedQueryNotFound'))
      return { ...rest, query: text }
    },
  }
}

/** Whether a caller could add documents: by the administrator's key, or another with ADMIN. */
function isAdministrator(caller: Caller): boolean {
  return caller.kind !== 'ANONYMOUS' && isUnrestricted(caller)
}

/** The error of a caller who may run trusted documents only, and requests something else. */
export function untrusted(): HttpError {
  const message = 'Only trusted documents may be run here. Send the documentId of one that you may run.'
  return new HttpError(403, 'DOCUMENT_NOT_TRUSTED', message)
}
