import type { ServerResponse } from 'node:http'
import { type NthError, unavailable } from '../core/errors.ts'

/** Answers with an error that arose before GraphQL, as GraphQL's own errors look. */
export function refuse(
  response: ServerResponse,
  status: number,
  { message, extensions, details }: NthError,
  type = 'application/json',
): void {
  const text = `${JSON.stringify({ errors: [{ message, extensions }] })}\n`
  if (details.retryAfterMs) response.setHeader('retry-after', Math.ceil(details.retryAfterMs / 1000))
  response.writeHead(status, {
    'content-type': `${type}; charset=utf-8`,
    'content-length': Buffer.byteLength(text),
  })
  response.end(text)
}

/** The error for a request that comes when those under way take all the memory that they may. */
export function tooBusy(): NthError {
  return unavailable(
    'Too many or too large requests are under way; nothing of this one was done. Try again in a moment.',
  )
}
