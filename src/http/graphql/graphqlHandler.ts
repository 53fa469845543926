/*
 * A second way into Yoga's pipeline, beside its own request and response. An `increment` took 47 µs of processor time
 * instead of 147, a read of 100 counters 0.70 ms instead of 0.82. `compiledOperations.ts` says how to measure it.
 */

import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { ExecutionResult } from 'graphql'
import { type GraphQLParams, processRegularResult } from 'graphql-yoga'
import { operationTrace, type RequestWork, requestTrace, traced } from '../../core/traces.ts'
import type { Access, Authenticate } from '../access/authentication.ts'
import type { Credential } from '../access/credentials.ts'
import { type HeaderList, withHeaders } from '../connections/access.ts'
import { readBody } from '../connections/body.ts'
import type { Release, Reserve } from '../connections/connections.ts'
import { HttpError, overloaded, sendError } from '../connections/httpError.ts'
import { EVENT_STREAM, sendAsEvents } from '../live/events.ts'
import type { StreamResult } from '../live/liveQueries.ts'
import { HEAP_BYTES_A_CHARACTER } from './documents/documentLimits.ts'
import { maskError } from './errors.ts'
import {
  isUsualJson,
  type JsonType,
  paramsIn,
  paramsInAddress,
  RESPONSE_TYPE,
  typeFor,
} from './parameters.ts'
import { codeOf, ID_HEADER, RequestNote } from './requestNote.ts'
import { endOfTick, sendJson } from './sendJson.ts'
import type { Api } from './yoga.ts'

/** Length of a document, in characters, up to which the memory of its request is released when its stream starts. */
const SHORT_DOCUMENT = 4000

/** A request with parameters, and how to answer it. */
interface Answerable {
  params: GraphQLParams
  request: IncomingMessage
  response: ServerResponse
  headers: HeaderList
  access: Access
  note: RequestNote
  /** If it isn't answered by events. */
  type: JsonType
}

/** Answers a request; `headers` are on every response of the server. */
export type Handler = (
  request: IncomingMessage,
  response: ServerResponse,
  headers: HeaderList,
  credential?: Credential,
) => unknown

export interface HandlerOptions {
  api: Api
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
export function createGraphqlHandler({ api, reserve, release, authenticate }: HandlerOptions): Handler {
  const { getResultForParams, fetchAPI, logger } = api
  async function resultOf({ params, request: req, response: res, access, note }: Answerable) {
    const { host = 'localhost', accept } = req.headers
    const acceptsEvents = accept === undefined || accept === '*/*' || accept.includes(EVENT_STREAM)
    const request = new fetchAPI.Request(`http://${host}${req.url}`, {
      method: req.method ?? 'POST',
      // Yoga passes Node's headers to its Request unchanged, which the type of the web's Request doesn't allow.
      headers: req.headers as Record<string, string>,
    })
    try {
      return (
        (await getResultForParams({ params, request }, { req, res, ...access, acceptsEvents, note })) ?? {}
      )
    } catch (error) {
      // Rejected before it reached GraphQL.
      logger.error(error)
      return { errors: [maskError(error)] }
    }
  }

  async function answer(answerable: Answerable) {
    const { params, request, response, headers, note, type } = answerable
    const execute = async () => {
      const result = await resultOf(answerable)
      note.code = codeOf(result as ExecutionResult)
      return result
    }
    const result = await traced(operationTrace, () => ({ findings: note }), execute)
    note.measure()
    if ('stream' in result) {
      // A short document costs little beside its stream.
      if ((params.query?.length ?? 0) <= SHORT_DOCUMENT) release(request)
      // Only subscriptions have one.
      const { stream, serve } = result as StreamResult
      stream.start(response, headers)
      return serve()
    }
    // Responses are written together, after all requests that were ready have been read. Written between one request
    // and the next, each wakes its client: an `increment` in memory then takes 87 µs of processor time rather than 42 (wrk
    // with 64 connections, two cores, Node 20). An idle server loses nothing: its tick ends at once.
    await endOfTick()
    if ('data' in result && request.headers.accept === EVENT_STREAM)
      return sendAsEvents(result, response, headers)
    if ('data' in result && !('errors' in result) && !('extensions' in result)) {
      const all = [...headers, 'content-type', `${type}; charset=utf-8`]
      return sendJson(response, 200, all, JSON.stringify(result))
    }
    const processed = processRegularResult(result, fetchAPI, type)
    const own = [...processed.headers].filter(([name]) => name !== 'content-length').flat()
    return sendJson(
      response,
      processed.status,
      [...headers, ...own, ID_HEADER, note.id],
      await processed.text(),
    )
  }

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
      reserve(request, document.length * HEAP_BYTES_A_CHARACTER)
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
    if (request.method === 'GET' && accept === EVENT_STREAM) {
      if (!hasMemoryFor(request.url ?? '')) return reject(overloaded())
      const params = paramsInAddress(request)
      return params instanceof HttpError
        ? reject(params)
        : answer({ params, request, response, headers, access, note, type: RESPONSE_TYPE })
    }
    if (request.method !== 'POST') {
      if (!hasMemoryFor(request.url ?? '')) return reject(overloaded())
      return passOn()
    }
    const type = typeFor(accept)
    const body = await readBody(request, reserve)
    if (body === undefined) return
    if (body instanceof HttpError) return reject(body, type)
    const params = isUsualJson(request) ? paramsIn(body) : undefined
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
