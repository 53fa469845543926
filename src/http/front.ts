import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { ExecutionResult } from 'graphql'
import { type GraphQLParams, processRegularResult } from 'graphql-yoga'
import { BodyRefusal, readBody } from './body.ts'
import { maskError } from './maskError.ts'
import { type AnswerType, saysJson, usualAnswerType } from './negotiation.ts'
import { refuse } from './refuse.ts'
import { endOfTurn } from './turn.ts'
import type { Api } from './yoga.ts'

/** Answers a request; `headers` are those that every answer of the server carries. */
export type Handler = (
  request: IncomingMessage,
  response: ServerResponse,
  headers: OutgoingHttpHeaders,
) => unknown

/**
 * The way into Yoga. Every body is read here, within its bounds. The ordinary request, JSON that wants JSON,
 * takes the shortest way: its parameters go straight into Yoga's pipeline, and the result straight to the
 * socket. Anything else goes through Yoga as it is. Both ways give the same answers.
 *
 * The shortest way begins with the plugins' `onParams` and ends with their `onExecutionResult`. Hooks for whole
 * requests and responses (`onRequest`, `onRequestParse`, `onResultProcess`, `onResponse`) are not called there.
 */
export function createFront(api: Api): Handler {
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
    headers: OutgoingHttpHeaders,
  ): Promise<void> {
    const processed = processRegularResult(result, fetchAPI, type)
    const text = await processed.text()
    response.writeHead(processed.status, {
      ...headers,
      ...Object.fromEntries(processed.headers),
      'content-length': Buffer.byteLength(text),
    })
    response.end(text)
  }

  return async (request, response, headers) => {
    if (request.method !== 'POST') {
      setAll(response, headers)
      return api(request, response)
    }
    const type = usualAnswerType(request.headers)
    const body = await readBody(request).catch(asRefusal)
    if (body === undefined) return
    if (body instanceof BodyRefusal) {
      setAll(response, headers)
      return refuse(response, body.status, body, type)
    }
    const params = saysJson(request.headers) ? paramsIn(body) : undefined
    if (!type || !params) {
      setAll(response, headers)
      // Where Yoga looks for a body that somebody else has read.
      return api(Object.assign(request, { body: Readable.from([body]) }), response)
    }
    const result = await resultOf(params, request, response)
    await endOfTurn()
    if (!isSuccess(result)) return sendProcessed(result, type, response, headers)
    const text = JSON.stringify(result)
    response.writeHead(200, {
      ...headers,
      'content-type': `${type}; charset=utf-8`,
      'content-length': Buffer.byteLength(text),
    })
    response.end(text)
  }
}

/** Sets headers that whoever answers will not know of. */
export function setAll(response: ServerResponse, headers: OutgoingHttpHeaders): void {
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) response.setHeader(name, value)
  }
}

function asRefusal(error: unknown): BodyRefusal {
  if (error instanceof BodyRefusal) return error
  throw error
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
