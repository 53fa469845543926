import type { ServerResponse } from 'node:http'
import { type NthError, unavailable } from '../../core/errors.ts'

/** Sends an error from before GraphQL in the form of GraphQL's own errors. */
export function sendError(
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

/** The error for a request that arrives when those in flight use all the memory they may. */
export function overloaded(): NthError {
  return unavailable(
    'Too many or too large requests are in flight; this one was not executed. Try again in a moment.',
  )
}
