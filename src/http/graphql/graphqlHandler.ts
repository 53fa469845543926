/*
 * A second way into Yoga's pipeline, beside its own request and response. Processor time of a server in memory, by
 * `process.cpuUsage`, at 64 connections: an `increment` took 47 µs instead of 147, a read of 100 counters 0.70 ms
 * instead of 0.82 (medians of five alternating runs on two cores, Node 20). To repeat it, compare
 * `npm run bench -- --only ceiling,hot@64,reads@64` with and without the fast path below.
 */

import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { ExecutionResult } from 'graphql'
import { type GraphQLParams, processRegularResult } from 'graphql-yoga'
import { BodyError, readBody } from '../connections/body.ts'
import type { Connections } from '../connections/connections.ts'
import { type HeaderList, withHeaders } from '../connections/cors.ts'
import { overloaded, sendError } from '../connections/sendError.ts'
import { maskError } from './maskError.ts'
import { hasJsonBody, type ResponseType, usualResponseType } from './negotiation.ts'
import type { Api } from './yoga.ts'

/** Heap that a character of an executed document may need, in bytes. Measured on Node 20: 25, in 880 mutations. */
export const HEAP_BYTES_A_CHARACTER = 64

/** Answers a request; `headers` are on every response of the server. */
export type Handler = (request: IncomingMessage, response: ServerResponse, headers: HeaderList) => unknown

/**
 * Passes requests to Yoga. Every body is read here, within its limits. The ordinary request, JSON that accepts JSON,
 * takes a fast path: its parameters go directly into Yoga's pipeline, and the result directly to the socket. All others
 * go through Yoga unchanged. Both paths give the same responses.
 *
 * The fast path starts with the plugins' `onParams` and ends with their `onExecutionResult`. Hooks for whole requests
 * and responses (`onRequest`, `onRequestParse`, `onResultProcess`, `onResponse`) are not called there.
 */
export function createGraphqlHandler(api: Api, connections: Pick<Connections, 'reserve'>): Handler {
  const { getResultForParams, fetchAPI, logger } = api
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

  async function resultOf(params: GraphQLParams, req: IncomingMessage, res: ServerResponse) {
    const { host = 'localhost' } = req.headers
    const request = new fetchAPI.Request(`http://${host}${req.url}`, {
      method: 'POST',
      // Yoga passes Node's headers to its Request unchanged, which the type of the web's Request doesn't allow.
      headers: req.headers as Record<string, string>,
    })
    try {
      return (await getResultForParams({ params, request }, { req, res })) ?? {}
    } catch (error) {
      // Rejected before it reached GraphQL.
      logger.error(error)
      return { errors: [maskError(error)] }
    }
  }

  /** Sends a result as Yoga does, including errors. */
  async function sendProcessed(
    result: Parameters<typeof processRegularResult>[0],
    type: ResponseType,
    response: ServerResponse,
    headers: HeaderList,
  ): Promise<void> {
    const processed = processRegularResult(result, fetchAPI, type)
    const own = [...processed.headers].filter(([name]) => name !== 'content-length').flat()
    send(response, processed.status, [...headers, ...own], await processed.text())
  }

  return async (request, response, headers) => {
    if (request.method !== 'POST') {
      const { length } = request.url ?? ''
      const hasMemory = connections.reserve(request, length * HEAP_BYTES_A_CHARACTER)
      withHeaders(response, headers)
      return hasMemory ? api(request, response) : sendError(response, 503, overloaded())
    }
    const type = usualResponseType(request.headers)
    const body = await readBody(request, connections)
    if (body === undefined) return
    if (body instanceof BodyError) {
      return sendError(withHeaders(response, headers), body.status, body, type)
    }
    const params = hasJsonBody(request.headers) ? paramsIn(body) : undefined
    const { length } = typeof params?.query === 'string' ? params.query : body
    if (!connections.reserve(request, length * HEAP_BYTES_A_CHARACTER)) {
      return sendError(withHeaders(response, headers), 503, overloaded(), type)
    }
    if (!type || !params) {
      normalizeContentType(request)
      // Yoga looks here for a body that was already read.
      return api(Object.assign(request, { body: Readable.from([body]) }), withHeaders(response, headers))
    }
    const result = await resultOf(params, request, response)
    // Responses are written together, after all requests that were ready have been read. Written between one request
    // and the next, each wakes its client: an `increment` in memory then takes 87 µs of processor time rather than 42 (wrk
    // with 64 connections, two cores, Node 20). An idle server loses nothing: its tick ends at once.
    await endOfTick()
    if (!isSuccess(result)) return sendProcessed(result, type, response, headers)
    send(response, 200, [...headers, 'content-type', `${type}; charset=utf-8`], JSON.stringify(result))
  }
}

/** Yoga doesn't accept capitals in the type of a body, or spaces before a semicolon. */
function normalizeContentType({ headers }: IncomingMessage): void {
  const type = headers['content-type']
  if (type) headers['content-type'] = type.replace(/^[^;]*/, (media) => media.trim().toLowerCase())
}

/** As one list, headers cost 5 µs of processor time less than with `setHeader`, a tenth of an `increment` in memory. */
function send(response: ServerResponse, status: number, headers: HeaderList, json: string): void {
  const text = `${json}\n`
  response.writeHead(status, [...headers, 'content-length', String(Buffer.byteLength(text))])
  response.end(text)
}

/** The parameters of a request; undefined if its body isn't a JSON object. */
function paramsIn(body: Buffer): GraphQLParams | undefined {
  try {
    const value: unknown = JSON.parse(body.toString('utf8'))
    return value !== null && typeof value === 'object' && !Array.isArray(value) ? value : undefined
  } catch {
    // Yoga reports the error.
    return undefined
  }
}

function isSuccess(result: object): result is ExecutionResult {
  return 'data' in result && !('errors' in result) && !('extensions' in result)
}
