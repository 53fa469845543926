/*
 * The way of a request into GraphQL and back, beside Yoga's own requests and responses: its body is read within limits,
 * compiled operations are executed without Yoga, and others enter Yoga's pipeline from the plugins' `onParams` to their
 * `onExecutionResult`. Hooks for whole requests and responses (`onRequest`, `onRequestParse`, `onResultProcess`,
 * `onResponse`) are not called. An `increment` in memory took 47 µs of processor time in that pipeline instead of 147, a
 * read of 100 counters 0.70 ms instead of 0.82; without it, an `increment` takes 35 µs instead of 46.
 * `documents.ts` says how to measure it.
 */
import { hash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ExecutionResult } from 'graphql'
import { type GraphQLParams, processRegularResult } from 'graphql-yoga'
import type { Gate } from '../graphql/gate.ts'
import { costOfText, LONG_TEXT, VALUE_BUDGET } from '../graphql/selections.ts'
import type { Notices } from '../operations/log.ts'
import { operationTrace, requestMeasure, requestTrace } from '../operations/measures.ts'
import type { Access, Authenticate, Credential } from './authentication.ts'
import type { ReadBody } from './body.ts'
import type { Connections } from './connections.ts'
import { HEAP_BYTES_A_CHARACTER, type Rendered } from './documents.ts'
import {
  finalResult,
  type HeaderList,
  HttpError,
  maskError,
  methodError,
  NOT_CACHED,
  overloaded,
  sendError,
  withHeaders,
} from './errors.ts'
import type { StreamResult } from './liveQueries.ts'
import {
  areValid,
  type JsonType,
  paramsInAddress,
  paramsInBody,
  RESPONSE_TYPE,
  typeFor,
} from './parameters.ts'
import { codeOf, hasTag, ID_HEADER, RequestNote, type ServerContext } from './requests.ts'
import { EVENT_STREAM, ResponseStream, sendAsEvents, streamFormatFor } from './responseStream.ts'
import type { Api } from './yoga.ts'

interface HandlerOptions extends Pick<Connections, 'reserve' | 'release'> {
  api: Api
  readBody: ReadBody
  authenticate: Authenticate
  gate: Gate
  notices: Notices
}

/** A request to the API: one of HTTP, or a message of a WebSocket, whose request opened it. */
interface ApiRequest {
  request: IncomingMessage
  note: RequestNote
  /** Length of its body, address or message, in bytes. */
  length: number
}

/** A request of HTTP, and what it is answered with. */
interface ApiExchange extends ApiRequest {
  response: ServerResponse
  /** Of every response of the server. */
  headers: HeaderList
  /** The `limitHeaders` of `Access`, once it is known who sent the request. */
  limitHeaders?: Access['limitHeaders']
  /** What a subscription would be answered with. */
  responseStream?: ResponseStream | undefined
}

/** Characters of a response that is encoded in a tick of its own: for the longest, 10 MB, it takes 10 ms. */
const LONG_RESPONSE = 1_000_000

export type GraphqlHandler = ReturnType<typeof createGraphqlHandler>

/** Creates the functions that answer requests to the API. */
export function createGraphqlHandler({ api, ...options }: HandlerOptions) {
  const { readBody, reserve, release, authenticate, gate, notices } = options
  const { cache, executeCompiled, persistedQueries } = api
  const { getResultForParams, fetchAPI, logger } = api.yoga

  return { answerCall, subscribe }

  function answerCall(
    request: IncomingMessage,
    response: ServerResponse,
    headers: HeaderList,
    credential?: Credential,
  ): Promise<unknown> {
    const note = new RequestNote(request)
    const exchange: ApiExchange = { request, response, headers, note, length: request.url?.length ?? 0 }
    return requestTrace.tracePromise(handle, exchange, undefined, exchange, credential)
  }

  /** Opens a subscription of a WebSocket, which `request` has opened. `length`: of the message, in bytes. */
  async function subscribe(
    request: IncomingMessage,
    access: Access,
    params: GraphQLParams,
    length: number,
  ): Promise<StreamResult | Rendered> {
    const note = new RequestNote(request)
    note.caller = access.caller
    try {
      const resolved = await persistedQueries.resolve(params, access.caller, RESPONSE_TYPE)
      if (resolved.query === undefined) throw new HttpError(400, 'BAD_REQUEST', NO_QUERY)
      const result = await resultOf({ request, note, length }, resolved, access, RESPONSE_TYPE)
      // Only subscriptions have it.
      if ('serve' in result) return result as StreamResult
      return 'json' in result ? result : await render(result, RESPONSE_TYPE)
    } catch (error) {
      if (!(error instanceof HttpError)) throw error
      note.code = error.code
      note.cause = error.cause
      return await render({ errors: [maskError(error)] }, RESPONSE_TYPE)
    } finally {
      requestMeasure.publish(note)
    }
  }

  async function handle(exchange: ApiExchange, credential: Credential | undefined): Promise<unknown> {
    const { request, note } = exchange
    const type = typeFor(request.headers.accept)
    try {
      const established = authenticate(request, credential)
      const access = established instanceof Promise ? await established : established
      note.caller = access.caller
      exchange.limitHeaders = access.limitHeaders
      let params: GraphQLParams
      if (request.method === 'POST') {
        const body = await readBody(request, access.caller.grants.length > 0)
        if (body === undefined) return
        if (body instanceof HttpError) throw body
        exchange.length = body.length
        if (body.length > LONG_TEXT) await gate.untilRoom(costOfText(body.length), access.owner)
        params = paramsInBody(request, body.toString('utf8'))
      } else if (request.method === 'GET' || request.method === 'HEAD') {
        params = paramsInAddress(request)
      } else {
        throw methodError('GET, HEAD, POST', 'Requests to the API are sent by GET or POST.')
      }
      // Before anything is executed: a number that can't be returned must not be issued.
      if (!type) throw new HttpError(406, 'BAD_REQUEST', NOT_ACCEPTABLE)
      const resolved = persistedQueries.resolve(params, access.caller, type)
      params = resolved instanceof Promise ? await resolved : resolved
      const { query } = params
      if (query === undefined) throw new HttpError(400, 'BAD_REQUEST', NO_QUERY)
      // Yoga itself rejects a query that isn't a string.
      const { length } = typeof query === 'string' ? query : ''
      if (length > 0 && !reserve(request, length * HEAP_BYTES_A_CHARACTER, length)) throw overloaded()
      return await answer(exchange, params, access, type)
    } catch (error) {
      if (!(error instanceof HttpError)) throw error
      reject(exchange, error, type)
    }
  }

  function reject(exchange: ApiExchange, error: HttpError, type?: JsonType): void {
    const { response, note } = exchange
    note.code = error.code
    note.cause = error.cause
    requestMeasure.publish(note)
    response.setHeader(ID_HEADER, note.id)
    sendError(withHeaders(response, headersOf(exchange)), error, type)
  }

  async function answer(exchange: ApiExchange, params: GraphQLParams, access: Access, type: JsonType) {
    const { request, note } = exchange
    const work = operationTrace.tracePromise(resultOf, exchange, undefined, exchange, params, access, type)
    const result = await work
    requestMeasure.publish(note)
    if ('serve' in result) {
      // What the stream keeps has a budget of its own.
      release(request)
      // Only subscriptions have one.
      return exchange.responseStream && (result as StreamResult).serve(exchange.responseStream)
    }
    // Responses are written together, after all requests that were ready have been read. Written between one request
    // and the next, each wakes its client: an `increment` in memory then takes 87 µs of processor time rather than 42 (wrk
    // with 64 connections, two cores, Node 20). An idle server loses nothing: its tick ends at once.
    await endOfTick()
    return send(exchange, result, type)
  }

  async function resultOf(
    call: ApiRequest | ApiExchange,
    params: GraphQLParams,
    access: Access,
    type: JsonType,
  ) {
    const { request, note, length } = call
    const isOnSocket = !('response' in call)
    // The document of a persisted query isn't in the request.
    const variablesLength = Math.max(0, length - (params.query?.length ?? 0))
    const cost = params.extensions?.cost === true ? { values: 0 } : undefined
    // Not `...access`: V8 then creates hidden classes for each request, 9 of 45 µs of an `increment` (Node 20).
    const { caller, owner, takeChanges } = access
    const server: ServerContext = {
      caller,
      owner,
      takeChanges,
      req: request,
      note,
      cost,
      variablesLength,
      isOnSocket,
    }
    try {
      const isValid = areValid(params)
      const compiled = isValid && !isOnSocket ? await executeCompiled(params, server) : undefined
      if (compiled && !compiled.errors) return withCost(compiled, cost)
      const refusal = isValid && !compiled ? cache.refusal(params, type) : undefined
      note.code = refusal?.code
      if (refusal) return refusal
      const result =
        compiled && 'data' in compiled
          ? finalResult(compiled, note.operation === 'mutation', notices)
          : ((await resultInYoga(call, params, server)) ?? {})
      note.code = codeOf(result as ExecutionResult)
      if (!note.isDocumentRefused) return withCost(result, cost)
      const rendered = await render(result, type)
      cache.refuse(params, type, rendered)
      return rendered
    } catch (error) {
      // Rejected before it reached GraphQL.
      logger.error(error)
      const result = { errors: [maskError(error)] }
      note.code = codeOf(result)
      return result
    }
  }

  function resultInYoga(call: ApiRequest | ApiExchange, params: GraphQLParams, server: ServerContext) {
    const { url, headers, method } = server.req
    const { host = 'localhost', accept } = headers
    // Yoga passes Node's headers to its Request unchanged, which the type of the web's Request doesn't allow. Which
    // operations may be sent by GET is checked before they are executed.
    const options = { method: 'POST', headers: headers as Record<string, string> }
    const request = new fetchAPI.Request(`http://${host}${url}`, options)
    if ('response' in call)
      server.openStream = () => {
        // A response to HEAD has no body, and so no events.
        const format = method === 'HEAD' ? undefined : streamFormatFor(accept)
        call.responseStream = format && new ResponseStream(call.response, () => headersOf(call), format)
        return call.responseStream
      }
    return getResultForParams({ params, request }, server)
  }

  /** The response to a result, without what others than Yoga add to it. */
  async function render(result: YogaResult, type: JsonType): Promise<Rendered> {
    const processed = processRegularResult(result, fetchAPI, type)
    const headers = [...processed.headers].filter(([name]) => name !== 'content-length').flat()
    const code = codeOf(result as ExecutionResult)
    return { status: processed.status, headers, json: await processed.text(), code }
  }

  type YogaResult = Parameters<typeof processRegularResult>[0]
  type Result = Exclude<Awaited<ReturnType<typeof resultOf>>, StreamResult>

  /**
   * Sends a result as JSON, or as an event to a client that accepts nothing else. JSON ends with a newline, so that a
   * terminal's next prompt starts on a line of its own. No cache may store a response with errors, which others may not
   * get, or not any more: its status may be 200.
   */
  async function send(exchange: ApiExchange, result: Result, type: JsonType) {
    const { request, response, note } = exchange
    const headers = headersOf(exchange)
    const isForEvents = request.headers.accept === EVENT_STREAM
    if ('data' in result && isForEvents) return sendAsEvents(JSON.stringify(result), response, headers)
    let status = 200
    let text: string
    // As one list, they cost 5 µs of processor time less than with `setHeader`, a tenth of an `increment` in memory.
    const all = [...headers]
    if ('data' in result && !('errors' in result) && !('extensions' in result)) {
      text = `${JSON.stringify(result)}\n`
      if (request.method !== 'POST') {
        // Browsers keep these responses, and revalidate them each time (RFC 9110, 8.8.3).
        const tag = `W/"${hash('sha256', text, 'base64url')}"`
        all.push('etag', tag, 'cache-control', 'private, no-cache', 'vary', 'Authorization, Accept')
        if (hasTag(request, tag)) return response.writeHead(304, all).end()
      }
      all.push('content-type', `${type}; charset=utf-8`)
    } else {
      const rendered = 'json' in result ? result : await render(result, type)
      status = rendered.status
      // Errors of validation, too: GraphQL over SSE has them in an accepted stream, as EventSource shows no other response.
      if (status === 400 && isForEvents)
        return sendAsEvents(rendered.json, response, [...headers, ID_HEADER, note.id])
      all.push(...rendered.headers, ...NOT_CACHED, ID_HEADER, note.id)
      text = `${rendered.json}\n`
    }
    let body: string | Buffer = text
    if (body.length > LONG_RESPONSE) {
      await endOfTick()
      body = Buffer.from(body)
    }
    all.push('content-length', String(Buffer.byteLength(body)))
    response.writeHead(status, all)
    response.end(body)
  }
}

/** A result that says what it has cost, if its caller wants to know. */
function withCost<Result extends object>(result: Result, cost: ServerContext['cost']): Result {
  if (!cost || !('data' in result) || 'serve' in result) return result
  const { extensions } = result as ExecutionResult
  return { ...result, extensions: { ...extensions, cost: { ...cost, limit: VALUE_BUDGET } } }
}

/** The headers of a response, after the changes that its request made. */
function headersOf({ headers, limitHeaders }: ApiExchange): HeaderList {
  return limitHeaders ? [...headers, ...limitHeaders()] : headers
}

const NOT_ACCEPTABLE =
  'Unsupported Accept header; this server returns application/json or application/graphql-response+json.'
const NO_QUERY = 'The request has no "query", the GraphQL document to execute.'

let tickEnd: Promise<void> | undefined

/** One promise for all callers in a tick costs less than one for each. */
function endOfTick(): Promise<void> {
  tickEnd ??= new Promise((resolve) => {
    setImmediate(() => {
      tickEnd = undefined
      resolve()
    })
  })
  return tickEnd
}
