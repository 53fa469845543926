import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import { refusalMeasure } from '../../operations/measures.ts'
import { NthError, unavailable } from '../../rules/errors.ts'

/** Names and values of headers, alternating. */
export type HeaderList = readonly string[]

/** Why a request is rejected before GraphQL, and the HTTP status. */
export class HttpError extends NthError {
  readonly status: number

  constructor(status: number, ...error: ConstructorParameters<typeof NthError>) {
    super(...error)
    this.status = status
  }
}

/** The error 503: the request was not executed. */
export function serviceUnavailable(message: string): HttpError {
  const { code, details } = unavailable(message)
  return new HttpError(503, code, message, details)
}

/** The error for a request that arrives when those in flight use all the memory they may. */
export function overloaded(): HttpError {
  refusalMeasure.publish('memory')
  return serviceUnavailable(
    'Too many or too large requests are in flight; this one was not executed. Try again in a moment.',
  )
}

/** On every response with an error: a cache must not give it to others, or later. By its status it might store it. */
export const NOT_CACHED = ['cache-control', 'no-store'] as const

/** Sets headers for code that doesn't get them as a list. */
export function withHeaders(response: ServerResponse, headers: HeaderList): ServerResponse {
  for (let index = 0; index + 1 < headers.length; index += 2) {
    response.setHeader(String(headers[index]), String(headers[index + 1]))
  }
  return response
}

/** An error as a response on a connection that is closed after it. */
export function rawResponse(error: HttpError): string {
  const { status, details } = error
  const text = textOf(error)
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(text)}`,
    NOT_CACHED.join(': '),
    'connection: close',
    ...(details.retryAfterMs ? [`retry-after: ${Math.ceil(details.retryAfterMs / 1000)}`] : []),
  ]
  return `${lines.join('\r\n')}\r\n\r\n${text}`
}

function textOf({ message, extensions }: HttpError): string {
  return `${JSON.stringify({ errors: [{ message, extensions }] })}\n`
}

export function isWrite({ method }: IncomingMessage): boolean {
  return method !== 'GET' && method !== 'HEAD'
}

/** Answers a write to what can only be read. */
export function rejectWrite(response: ServerResponse, path: string): void {
  response.setHeader('allow', 'GET, HEAD')
  sendError(response, new HttpError(405, 'BAD_REQUEST', `${path} is read-only; use GET or HEAD.`))
}

export function sendText(response: ServerResponse, type: string, text: string): void {
  response.writeHead(200, { 'content-type': type, 'content-length': Buffer.byteLength(text) })
  response.end(text)
}

/** Sends an error in the form of GraphQL's own errors. */
export function sendError(response: ServerResponse, error: HttpError, type = 'application/json'): void {
  const { status, details } = error
  const text = textOf(error)
  // The rest of the request may still arrive.
  if (status === 408) response.shouldKeepAlive = false
  if (status === 401) response.setHeader('www-authenticate', 'Bearer realm="Nth", error="invalid_token"')
  response.setHeader(...NOT_CACHED)
  if (details.retryAfterMs) response.setHeader('retry-after', Math.ceil(details.retryAfterMs / 1000))
  response.writeHead(status, {
    'content-type': `${type}; charset=utf-8`,
    'content-length': Buffer.byteLength(text),
  })
  response.end(text)
}
