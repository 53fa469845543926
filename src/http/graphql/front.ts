import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { ExecutionResult } from 'graphql'
import { type GraphQLParams, processRegularResult } from 'graphql-yoga'
import { BodyRefusal, readBody } from '../connections/body.ts'
import type { Connections } from '../connections/connections.ts'
import { endOfTurn } from '../connections/endOfTick.ts'
import { refuse, tooBusy } from '../connections/refuse.ts'
import { maskError } from './maskError.ts'
import { type AnswerType, saysJson, usualAnswerType } from './negotiation.ts'
import type { Api } from './yoga.ts'

/** Names and values of headers, alternating. */
export type HeaderList = readonly string[]

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
export function createFront(api: Api, connections: Pick<Connections, 'take'>): Handler {
  const { getResultForParams, fetchAPI, logger } = api

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
    type: AnswerType,
    response: ServerResponse,
    headers: HeaderList,
  ): Promise<void> {
    const processed = processRegularResult(result, fetchAPI, type)
    const own = [...processed.headers].filter(([name]) => name !== 'content-length').flat()
    send(response, processed.status, [...headers, ...own], await processed.text())
  }

  return async (request, response, headers) => {
    const type = usualAnswerType(request.headers)
    if (request.method !== 'POST') {
      setAll(response, headers)
      const { length } = request.url ?? ''
      if (!connections.take(request, length * HEAP_BYTES_A_CHARACTER)) return refuse(response, 503, tooBusy())
      return api(request, response)
    }
    const body = await readBody(request, connections)
    if (body === undefined) return
    if (body instanceof BodyRefusal) {
      setAll(response, headers)
      return refuse(response, body.status, body, type)
    }
    const params = saysJson(request.headers) ? paramsIn(body) : undefined
    const { length } = typeof params?.query === 'string' ? params.query : body
    if (!connections.take(request, length * HEAP_BYTES_A_CHARACTER)) {
      setAll(response, headers)
      return refuse(response, 503, tooBusy(), type)
    }
    if (!type || !params) {
      setAll(response, headers)
      tidyType(request)
      // Yoga looks here for a body that was already read.
      return api(Object.assign(request, { body: Readable.from([body]) }), response)
    }
    const result = await resultOf(params, request, response)
    await endOfTurn()
    if (!isSuccess(result)) return sendProcessed(result, type, response, headers)
    send(response, 200, [...headers, 'content-type', `${type}; charset=utf-8`], JSON.stringify(result))
  }
}

/** Normalizes the type of a body: Yoga doesn't accept capitals, or spaces before a semicolon. */
function tidyType({ headers }: IncomingMessage): void {
  const type = headers['content-type']
  if (type) headers['content-type'] = type.replace(/^[^;]*/, (media) => media.trim().toLowerCase())
}

function send(response: ServerResponse, status: number, headers: HeaderList, json: string): void {
  const text = `${json}\n`
  response.writeHead(status, [...headers, 'content-length', String(Buffer.byteLength(text))])
  response.end(text)
}

/** Sets headers before code that doesn't know of them responds. */
export function setAll(response: ServerResponse, headers: HeaderList): void {
  for (let index = 0; index + 1 < headers.length; index += 2) {
    response.setHeader(String(headers[index]), String(headers[index + 1]))
  }
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
