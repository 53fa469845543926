import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { roundedNumber } from '../../core/jsonNumbers.ts'
import { operationTrace, type RequestWork, requestTrace, traced } from '../../core/traces.ts'
import type { Access, Authenticate } from '../access/authentication.ts'
import type { Credential } from '../access/credentials.ts'
import { type HeaderList, withHeaders } from '../connections/access.ts'
import type { ReadBody } from '../connections/body.ts'
import type { Release, Reserve } from '../connections/connections.ts'
import { HttpError, overloaded, sendError } from '../connections/httpError.ts'
import { EVENT_STREAM } from '../live/events.ts'
import { createAnswer } from './answer.ts'
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
 * Passes requests to Yoga. Every body is read here, within its limits. The ordinary request, JSON that accepts JSON,
 * takes a fast path from the plugins' `onParams` to their `onExecutionResult`: its parameters go directly into Yoga's
 * pipeline, and the result to the socket. Hooks for whole requests and responses (`onRequest`, `onRequestParse`,
 * `onResultProcess`, `onResponse`) are not called there. All others go through Yoga, with the same responses.
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
    const note = new RequestNote(request)
    const work = () => workOf(request, response, note)
    return traced(requestTrace, work, () => handle(request, response, headers, credential, note))
  }

  async function handle(
    ...[request, response, headers, credential, note]: [...Parameters<Handler>, RequestNote]
  ) {
    const reject = (error: HttpError, type?: string) => {
      note.code = error.code
      note.measure()
      response.setHeader(ID_HEADER, note.id)
      return sendError(withHeaders(response, headers), error, type)
    }
    /** Passes it on to Yoga's own request and response. */
    const passOn = () => {
      response.once('close', () => note.measure())
      response.setHeader(ID_HEADER, note.id)
      const execute = async () => api(request, withHeaders(response, headers), { ...access, note })
      return traced(operationTrace, () => ({ findings: note }), execute)
    }
    const hasMemoryFor = (document: string | Buffer) =>
      reserve(request, document.length * HEAP_BYTES_A_CHARACTER, document.length)
    let access: Access
    try {
      const established = authenticate(request, credential)
      access = established instanceof Promise ? await established : established
      note.caller = access.caller
    } catch (error) {
      if (error instanceof HttpError) return reject(error, typeFor(request.headers.accept))
      throw error
    }
    const { accept } = request.headers
    if (request.method !== 'POST') {
      if (!hasMemoryFor(request.url ?? '')) return reject(overloaded())
      const params = paramsInAddress(request)
      if (params instanceof HttpError) return reject(params, typeFor(accept))
      if (request.method === 'GET' && accept === EVENT_STREAM)
        return answer({ params, request, response, headers, access, note, type: RESPONSE_TYPE })
      return passOn()
    }
    const type = typeFor(accept)
    const body = await readBody(request, access.caller.grants.length > 0)
    if (body === undefined) return
    if (body instanceof HttpError) return reject(body, type)
    const text = body.toString('utf8')
    const rounded = roundedNumber(text)
    if (rounded !== undefined) return reject(roundingError(rounded), type)
    const params = isUsualJson(request) ? paramsIn(text) : undefined
    if (!hasMemoryFor(typeof params?.query === 'string' ? params.query : body)) {
      return reject(overloaded(), type)
    }
    if (!type || !params) {
      // Yoga doesn't accept capitals in the type of a body, or spaces before a semicolon.
      const media = request.headers['content-type']?.replace(/^[^;]*/, (part) => part.trim().toLowerCase())
      if (media) request.headers['content-type'] = media
      // Yoga looks here for a body that was already read.
      Object.assign(request, { body: Readable.from([body]) })
      return passOn()
    }
    return answer({ params, request, response, headers, access, note, type })
  }
}

function workOf(
  { method = '', headers }: IncomingMessage,
  response: ServerResponse,
  note: RequestNote,
): RequestWork {
  return {
    method,
    headers,
    findings: note,
    onAnswered: (listener) =>
      void response.once('close', () => listener(response.headersSent ? response.statusCode : undefined)),
  }
}
