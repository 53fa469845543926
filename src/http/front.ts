import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { ExecutionResult } from 'graphql'
import { type GraphQLParams, processRegularResult } from 'graphql-yoga'
import { BodyRefusal, readBody } from './body.ts'
import type { Connections } from './connections.ts'
import { maskError } from './maskError.ts'
import { type AnswerType, saysJson, usualAnswerType } from './negotiation.ts'
import { refuse, tooBusy } from './refuse.ts'
import { endOfTurn } from './turn.ts'
import type { Api } from './yoga.ts'

/** Names and values of headers, one after the other. */
export type HeaderList = readonly string[]

/** What a character of a document may take, when it is executed. Measured on Node 20: 25, in 880 mutations. */
export const HEAP_BYTES_A_CHARACTER = 64

/** Answers a request; `headers` are those that every answer of the server carries. */
export type Handler = (request: IncomingMessage, response: ServerResponse, headers: HeaderList) => unknown

/**
 * The way into Yoga. Every body is read here, within its bounds. The ordinary request, JSON that wants JSON,
 * takes the shortest way: its parameters go straight into Yoga's pipeline, and the result straight to the
 * socket. Anything else goes through Yoga as it is. Both ways give the same answers.
 *
 * The shortest way begins with the plugins' `onParams` and ends with their `onExecutionResult`. Hooks for whole
 * requests and responses (`onRequest`, `onRequestParse`, `onResultProcess`, `onResponse`) are not called there.
 */
export function createFront(api: Api, connections: Pick<Connections, 'take'>): Handler {
  const { getResultForParams, fetchAPI, logger } = api

  async function resultOf(params: GraphQLParams, req: IncomingMessage, res: ServerResponse) {
    const { host = 'localhost' } = req.headers
    const request = new fetchAPI.Request(`http://${host}${req.url}`, {
      method: 'POST',
      // Yoga gives its Request Node's headers as they are, which the type of the web's doesn't foresee.
      headers: req.headers as Record<string, string>,
    })
    try {
      return (await getResultForParams({ params, request }, { req, res })) ?? {}
    } catch (error) {
      // Refused before it reached GraphQL.
      logger.error(error)
      return { errors: [maskError(error)] }
    }
  }

  /** What Yoga makes of a result, errors and all. */
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
      // Where Yoga looks for a body that somebody else has read.
      return api(Object.assign(request, { body: Readable.from([body]) }), response)
    }
    const result = await resultOf(params, request, response)
    await endOfTurn()
    if (!isSuccess(result)) return sendProcessed(result, type, response, headers)
    send(response, 200, [...headers, 'content-type', `${type}; charset=utf-8`], JSON.stringify(result))
  }
}

/** Writes the type of a body as Yoga expects it, who minds capitals, and spaces before a semicolon. */
function tidyType({ headers }: IncomingMessage): void {
  const type = headers['content-type']
  if (type) headers['content-type'] = type.replace(/^[^;]*/, (media) => media.trim().toLowerCase())
}

function send(response: ServerResponse, status: number, headers: HeaderList, json: string): void {
  const text = `${json}\n`
  response.writeHead(status, [...headers, 'content-length', String(Buffer.byteLength(text))])
  response.end(text)
}

/** Sets headers that whoever answers will not know of. */
export function setAll(response: ServerResponse, headers: HeaderList): void {
  for (let index = 0; index + 1 < headers.length; index += 2) {
    response.setHeader(String(headers[index]), String(headers[index + 1]))
  }
}

/** The parameters of a request, if there is nothing odd about it at first sight. */
function paramsIn(body: Buffer): GraphQLParams | undefined {
  try {
    const value: unknown = JSON.parse(body.toString('utf8'))
    return value !== null && typeof value === 'object' && !Array.isArray(value) ? value : undefined
  } catch {
    // Yoga says what is wrong with it.
    return undefined
  }
}

function isSuccess(result: object): result is ExecutionResult {
  return 'data' in result && !('errors' in result) && !('extensions' in result)
}
