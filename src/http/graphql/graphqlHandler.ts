import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { roundedNumber } from '../../core/jsonNumbers.ts'
import { operationTrace, type RequestWork, requestTrace, traced } from '../../core/measures.ts'
import type { Access, Authenticate } from '../access/authentication.ts'
import type { Credential } from '../access/credentials.ts'
import { type HeaderList, withHeaders } from '../connections/access.ts'
import type { ReadBody } from '../connections/body.ts'
import type { Release, Reserve } from '../connections/connections.ts'
import { HttpError, overloaded, sendError } from '../connections/httpError.ts'
import { EVENT_STREAM } from '../live/stream.ts'
import { type ApiExchange, createAnswer } from './answer.ts'
import { HEAP_BYTES_A_CHARACTER } from './documents/documentLimits.ts'
import {
  isUsualJson,
  paramsIn,
  paramsInAddress,
  RESPONSE_TYPE,
  roundingError,
  typeFor,
} from './parameters.ts'
import { ID_HEADER, RequestNote } from './requestNote.ts'
import type { Api } from './yoga.ts'

/** Answers a request; `headers` are on every response of the server. */
export type Handler = (
  request: IncomingMessage,
  response: ServerResponse,
  headers: HeaderList,
  credential?: Credential,
) => unknown

export interface HandlerOptions {
  api: Api
  readBody: ReadBody
  reserve: Reserve
  release: Release
  authenticate: Authenticate
}

/**
 * Answers requests to the API. Every body is read here, within its limits. The ordinary request, JSON that accepts JSON,
 * takes a fast path: its parameters go to the compiled operation, or else directly into Yoga's pipeline, from the plugins'
 * `onParams` to their `onExecutionResult`, and the result to the socket. Hooks for whole requests and responses
 * (`onRequest`, `onRequestParse`, `onResultProcess`, `onResponse`) are not called there. All others go through Yoga, with
 * the same responses.
 */
export function createGraphqlHandler({
  api,
  readBody,
  reserve,
  release,
  authenticate,
}: HandlerOptions): Handler {
  const answer = createAnswer(api, release)

  return (request, response, headers, credential) => {
    const exchange = { request, response, headers, note: new RequestNote(request) }
    if (!requestTrace.start.hasSubscribers) return handle(exchange, credential)
    return requestTrace.tracePromise(handle, workOf(exchange), undefined, exchange, credential)
  }

  async function handle(exchange: ApiExchange, credential: Credential | undefined): Promise<unknown> {
    const { request, note } = exchange
    const { accept } = request.headers
    let access: Access
    try {
      const established = authenticate(request, credential)
      access = established instanceof Promise ? await established : established
      note.caller = access.caller
    } catch (error) {
      if (error instanceof HttpError) return reject(exchange, error, typeFor(accept))
      throw error
    }
    if (request.method !== 'POST') {
      if (!hasMemoryFor(request, request.url ?? '')) return reject(exchange, overloaded())
      const params = paramsInAddress(request)
      if (params instanceof HttpError) return reject(exchange, params, typeFor(accept))
      const isStreamed = request.method === 'GET' && accept === EVENT_STREAM
      return isStreamed ? answer(exchange, params, access, RESPONSE_TYPE) : passOn(exchange, access)
    }
    const type = typeFor(accept)
    const body = await readBody(request, access.caller.grants.length > 0)
    if (body === undefined) return
    if (body instanceof HttpError) return reject(exchange, body, type)
    const text = body.toString('utf8')
    const rounded = roundedNumber(text)
    if (rounded !== undefined) return reject(exchange, roundingError(rounded), type)
    const params = isUsualJson(request) ? paramsIn(text) : undefined
    if (!hasMemoryFor(request, typeof params?.query === 'string' ? params.query : body))
      return reject(exchange, overloaded(), type)
    if (type && params) return answer(exchange, params, access, type)
    // Yoga doesn't accept capitals in the type of a body, or spaces before a semicolon.
    const media = request.headers['content-type']?.replace(/^[^;]*/, (part) => part.trim().toLowerCase())
    if (media) request.headers['content-type'] = media
    // Yoga looks here for a body that was already read.
    Object.assign(request, { body: Readable.from([body]) })
    return passOn(exchange, access)
  }

  function hasMemoryFor(request: IncomingMessage, document: string | Buffer): boolean {
    return reserve(request, document.length * HEAP_BYTES_A_CHARACTER, document.length)
  }

  function reject({ response, headers, note }: ApiExchange, error: HttpError, type?: string): void {
    note.code = error.code
    note.measure()
    response.setHeader(ID_HEADER, note.id)
    sendError(withHeaders(response, headers), error, type)
  }

  /** Passes a request on to Yoga's own request and response. */
  function passOn({ request, response, headers, note }: ApiExchange, access: Access): Promise<unknown> {
    response.once('close', () => note.measure())
    response.setHeader(ID_HEADER, note.id)
    const execute = async () => api.yoga(request, withHeaders(response, headers), { ...access, note })
    return traced(operationTrace, () => ({ findings: note }), execute)
  }
}

function workOf({ request: { method = '', headers }, response, note }: ApiExchange): RequestWork {
  return {
    method,
    headers,
    findings: note,
    onAnswered: (listener) =>
      void response.once('close', () => listener(response.headersSent ? response.statusCode : undefined)),
  }
}
