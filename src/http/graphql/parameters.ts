import type { IncomingMessage } from 'node:http'
import type { GraphQLParams } from 'graphql-yoga'
import { roundedNumber } from '../../core/jsonNumbers.ts'
import { HttpError } from '../connections/httpError.ts'
import { EVENT_STREAM } from '../live/stream.ts'

const JSON_TYPE = 'application/json'
export const RESPONSE_TYPE = 'application/graphql-response+json'
/** Types of responses in JSON. */
export type JsonType = typeof JSON_TYPE | typeof RESPONSE_TYPE

/** Accept headers of common clients, and the type that Yoga returns for each. A test compares them. */
const responseTypes = new Map<string | undefined, JsonType>([
  [undefined, JSON_TYPE],
  ['*/*', JSON_TYPE],
  ['application/json', JSON_TYPE],
  ['application/json, text/plain, */*', JSON_TYPE],
  ['application/graphql-response+json', RESPONSE_TYPE],
  ['application/graphql-response+json, application/json', RESPONSE_TYPE],
  ['application/graphql-response+json,application/json;q=0.9', RESPONSE_TYPE],
])

/** How clients declare a body of JSON; Yoga reads all others. */
const USUAL_JSON = /^application\/json(; ?charset=utf-8)?$/i

const NAMES = ['query', 'operationName', 'variables', 'extensions']

/** Maximum characters of a number in a message. */
const MAX_SHOWN = 50

/** Whether the body of a request is read here. */
export function isUsualJson({ headers }: IncomingMessage): boolean {
  return USUAL_JSON.test(headers['content-type'] ?? '')
}

/** The type of a response to JSON that accepts JSON or events; undefined if only Yoga can determine it. */
export function typeFor(accept: string | undefined): JsonType | undefined {
  const found = responseTypes.get(accept)
  if (found || !accept?.includes(EVENT_STREAM)) return found
  return accept.includes(JSON_TYPE) && !accept.includes(RESPONSE_TYPE) ? JSON_TYPE : RESPONSE_TYPE
}

/** The error for a number that would silently become another one. */
export function roundingError(number: string): HttpError {
  const shown = number.length > MAX_SHOWN ? `${number.slice(0, MAX_SHOWN)}…` : number
  const message = `The number ${shown} is not an integer, and would be rounded to ${Number(number)}.`
  return new HttpError(400, 'BAD_USER_INPUT', message)
}

/** The parameters in the address of a request. */
export function paramsInAddress({ url = '' }: IncomingMessage): GraphQLParams | HttpError {
  const given = new URLSearchParams(url.replace(/^[^?]*/, ''))
  const params: Record<string, unknown> = {}
  for (const name of NAMES) {
    const text = given.get(name)
    if (!text) continue
    try {
      params[name] = name === 'variables' || name === 'extensions' ? JSON.parse(text) : text
    } catch {
      return new HttpError(400, 'BAD_REQUEST', `The parameter ${name} is not valid JSON.`)
    }
  }
  const rounded = roundedNumber(given.get('variables') ?? '')
  return rounded === undefined ? params : roundingError(rounded)
}

/** Whether Yoga accepts parameters, and no plugin changes them. */
export function arePlain(params: GraphQLParams): boolean {
  for (const name in params) if (!NAMES.includes(name)) return false
  const { variables = null, extensions = null } = params
  // Also those of null.
  const areObjects = typeof variables === 'object' && typeof extensions === 'object'
  return (
    areObjects &&
    !Array.isArray(variables) &&
    !Array.isArray(extensions) &&
    extensions?.persistedQuery == null
  )
}

/** The parameters of a request; undefined if its body isn't a JSON object. */
export function paramsIn(body: string): GraphQLParams | undefined {
  try {
    const value: unknown = JSON.parse(body)
    return value !== null && typeof value === 'object' && !Array.isArray(value) ? value : undefined
  } catch {
    // Yoga reports the error.
    return undefined
  }
}
