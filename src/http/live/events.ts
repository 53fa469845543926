import type { ServerResponse } from 'node:http'
import type { ExecutionResult } from 'graphql'
import type { HeaderList } from '../connections/access.ts'
import { NOT_CACHED } from '../connections/httpError.ts'

/*
 * Server-sent events, as the protocol GraphQL over SSE has them in its mode of distinct connections:
 * https://github.com/enisdenjo/graphql-sse/blob/master/PROTOCOL.md
 */

export const EVENT_STREAM = 'text/event-stream'

/** Headers of a stream. Proxies must not collect its events before they pass them on; nginx reads the last one. */
export const STREAM_HEADERS: HeaderList = [
  ...['content-type', `${EVENT_STREAM}; charset=utf-8`],
  ...NOT_CACHED,
  ...['x-accel-buffering', 'no'],
]

/** Sends the one result of a query or mutation to a client that accepts events only. */
export function sendAsEvents(result: ExecutionResult, response: ServerResponse, headers: HeaderList): void {
  response.writeHead(200, [...headers, ...STREAM_HEADERS])
  response.end(nextEvent(result) + COMPLETE)
}

/** A result as an event. JSON has no line breaks of its own. */
export function nextEvent(result: ExecutionResult): string {
  return `event: next\ndata: ${JSON.stringify(result)}\n\n`
}

/** The end of a subscription. Browsers ignore events without data. */
export const COMPLETE = 'event: complete\ndata:\n\n'

/** A comment: proxies close connections on which nothing is sent. */
export const HEARTBEAT = ':\n\n'
