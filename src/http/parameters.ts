import { hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { GraphQLParams } from 'graphql-yoga'
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import type { TrustedDocuments } from '../repository/trustedDocuments.ts'
import { withoutRounding } from '../rules/jsonNumbers.ts'
import { type Caller, isUnrestricted } from '../rules/rights.ts'
import { documentIdFault, plainDocumentId } from '../rules/trustedDocument.ts'
import type { DocumentCache } from './documents.ts'
import { HttpError, rejectRequest } from './errors.ts'
import { streamFormatFor } from './responseStream.ts'

const JSON_TYPE = 'application/json'
export const RESPONSE_TYPE = 'application/graphql-response+json'
export type JsonType = typeof JSON_TYPE | typeof RESPONSE_TYPE

/** Ranges of the header Accept, and the type that is returned to each. */
const RESPONSE_TYPES = new Map<string, JsonType>([
  [JSON_TYPE, JSON_TYPE],
  [RESPONSE_TYPE, RESPONSE_TYPE],
  ['application/*', JSON_TYPE],
  ['*/*', JSON_TYPE],
])

const BODY_TYPES = [JSON_TYPE, 'application/graphql+json']

const NAMES = ['query', 'operationName', 'variables', 'extensions']
/** Parameters by which a request names a trusted document. */
const ID_NAMES = ['documentId', 'doc_id']

/** The type of a response to a client that accepts JSON, or streams alone; undefined if it accepts neither. */
export function typeFor(accept: string | undefined): JsonType | undefined {
  if (!accept) return JSON_TYPE
  for (const range of rangesOf(accept)) {
    const type = RESPONSE_TYPES.get(mediaType(range))
    if (type) return type
  }
  return streamFormatFor(accept) ? RESPONSE_TYPE : undefined
}

/** The ranges of an Accept, most wanted first; those that the client refuses are left out (RFC 9110, 12.4.2). */
function rangesOf(accept: string): string[] {
  const ranges = accept.split(',')
  if (!accept.includes('q=')) return ranges
  const weightOf = (range: string) => Number(/;\s*q=([\d.]+)/.exec(range)?.[1] ?? 1)
  return ranges.filter((range) => weightOf(range) > 0).sort((a, b) => weightOf(b) - weightOf(a))
}

function mediaType(header: string): string {
  const end = header.indexOf(';')
  return (end === -1 ? header : header.slice(0, end)).trim().toLowerCase()
}

/**
 * The parameters in a body.
 *
 * @throws {HttpError} if it is of another type than JSON or GraphQL, or isn't an object of JSON
 */
export function paramsInBody({ headers }: IncomingMessage, text: string): GraphQLParams {
  // A byte order mark may be ignored (RFC 8259, 8.1): some tools begin files with one.
  const body = text.startsWith('\ufeff') ? text.slice(1) : text
  const type = mediaType(headers['content-type'] ?? '')
  if (type === 'application/graphql') return { query: body }
  if (!BODY_TYPES.includes(type)) {
    // Browsers send forms to any origin without a preflight, so any page could write.
    const message = 'Send the request as application/json, with a body such as {"query": "…"}.'
    throw new HttpError(415, 'BAD_REQUEST', message)
  }
  const value = parsed(body, 'request')
  if (value !== null && typeof value === 'object' && !Array.isArray(value)) return value
  throw new HttpError(400, 'BAD_REQUEST', 'The body must be one object such as {"query": "…"}.')
}

function parsed(json: string, name: string): unknown {
  try {
    return JSON.parse(withoutRounding(json))
  } catch (error) {
    // JSON.parse throws nothing else. The message may go on with the whole text.
    const [reason] = (error as SyntaxError).message.split(', "')
    throw new HttpError(400, 'BAD_REQUEST', `The ${name} is not valid JSON: ${reason}.`)
  }
}

/** What stands behind the path in the address of a request. */
export function queryOf({ url = '' }: IncomingMessage): URLSearchParams {
  return new URLSearchParams(url.replace(/^[^?]*/, ''))
}

/** The parameters in the address of a request. */
export function paramsInAddress(request: IncomingMessage): GraphQLParams {
  const given = queryOf(request)
  const params: Record<string, unknown> = {}
  for (const name of [...NAMES, ...ID_NAMES]) {
    const text = given.get(name)
    if (!text) continue
    const isJson = name === 'variables' || name === 'extensions'
    params[name] = isJson ? parsed(text, `parameter ${name}`) : text
  }
  return params
}

/** Whether Yoga accepts the names and types of parameters. */
export function areValid(params: GraphQLParams): boolean {
  for (const name in params) if (!NAMES.includes(name)) return false
  const { variables = null, extensions = null } = params
  // The type of null is also 'object'.
  const areObjects = typeof variables === 'object' && typeof extensions === 'object'
  return areObjects && !Array.isArray(variables) && !Array.isArray(extensions)
}

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
      rejectRequest(error)
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
      // Whoever could add documents may run any: by the administrator's key, or another with ADMIN.
      const isBound =
        allowed != null || (trustedOnly && (caller.kind === 'ANONYMOUS' || !isUnrestricted(caller)))
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

/** The error of a caller who may run trusted documents only, and requests something else. */
export function untrusted(): HttpError {
  const message = 'Only trusted documents may be run here. Send the documentId of one that you may run.'
  return new HttpError(403, 'DOCUMENT_NOT_TRUSTED', message)
}
