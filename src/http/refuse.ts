import type { ServerResponse } from 'node:http'
import type { NthError } from '../core/errors.ts'

/** Answers with an error that arose before GraphQL, as GraphQL's own errors look. */
export function refuse(
  response: ServerResponse,
  status: number,
  { message, extensions, details }: NthError,
  type = 'application/json',
): void {
  const text = JSON.stringify({ errors: [{ message, extensions }] })
  if (details.retryAfterMs) response.setHeader('retry-after', Math.ceil(details.retryAfterMs / 1000))
  response.writeHead(status, {
    'content-type': `${type}; charset=utf-8`,
    'content-length': Buffer.byteLength(text),
  })
  response.end(text)
}
