import type { ServerResponse } from 'node:http'
import type { NthError } from '../rules/errors.ts'
import { type HeaderList, NOT_CACHED } from './errors.ts'
import type { Sink, Stream } from './stream.ts'

export const EVENT_STREAM = 'text/event-stream'

/** How the results of a subscription are written to a response, each as soon as it is there. */
export interface StreamFormat {
  contentType: string
  /** What stands before the first result. */
  start: string
  /** A result, in JSON: it has no line breaks of its own. */
  next(json: string): string
  /** The last result of a subscription that the server ends, with nothing but errors, in JSON. */
  failure(json: string): string
  /** What keeps the connection open: proxies close those on which nothing is sent. */
  heartbeat: string
  /** The end of a subscription: clients don't connect again by themselves. */
  complete: string
}

const eventOf = (json: string) => `event: next\ndata: ${json}\n\n`

/**
 * Server-sent events, as the protocol GraphQL over SSE has them in its mode of distinct connections:
 * https://github.com/enisdenjo/graphql-sse/blob/master/PROTOCOL.md
 */
const EVENTS: StreamFormat = {
  contentType: `${EVENT_STREAM}; charset=utf-8`,
  start: '',
  next: eventOf,
  failure: eventOf,
  heartbeat: ':\n\n',
  // Browsers ignore events without data.
  complete: 'event: complete\ndata:\n\n',
}

/**
 * Apollo's multipart protocol. A client takes a part for whole when the boundary after it has arrived, so each part ends
 * with that: https://www.apollographql.com/docs/graphos/routing/operations/subscriptions/multipart-protocol
 */
const PARTS: StreamFormat = {
  contentType: 'multipart/mixed;boundary="graphql";subscriptionSpec=1.0',
  start: '\r\n--graphql',
  next: (json) => partOf(`{"payload":${json}}`),
  // Sent as an error of the protocol, beside an empty payload.
  failure: (json) => partOf(`{"payload":null,${json.slice(1)}`),
  heartbeat: partOf('{}'),
  complete: '--\r\n',
}

function partOf(json: string): string {
  return `\r\ncontent-type: application/json\r\n\r\n${json}\r\n--graphql`
}

/** The format of subscriptions for a client; undefined if it accepts none. */
export function streamFormatFor(accept: string | undefined): StreamFormat | undefined {
  if (accept === undefined || accept === '*/*' || accept.includes(EVENT_STREAM)) return EVENTS
  return /multipart\/mixed\s*;[^,]*subscriptionSpec="?1\.0/i.test(accept) ? PARTS : undefined
}

/** Headers of a stream. Proxies must not collect its events before they pass them on; nginx reads the last one. */
function streamHeaders({ contentType }: StreamFormat): HeaderList {
  return ['content-type', contentType, ...NOT_CACHED, 'x-accel-buffering', 'no']
}

/** A subscription as a response that doesn't end. */
export class ResponseStream implements Sink {
  readonly #response: ServerResponse
  readonly #headers: () => HeaderList
  readonly #format: StreamFormat
  /** On the clock of `performance.now()`, in milliseconds. */
  #lastWrite = 0

  /** @param headers returns those that every response has, once it begins */
  constructor(response: ServerResponse, headers: () => HeaderList, format: StreamFormat) {
    this.#response = response
    this.#headers = headers
    this.#format = format
  }

  start(stream: Stream): boolean {
    const response = this.#response
    response.on('close', () => stream.close())
    // A client that has ended its side reads no more events. The server's sockets stay open then, for other responses.
    const { socket } = response
    socket?.once('end', () => stream.break())
    if (stream.state === 'closed' || response.destroyed || socket?.readableEnded) return false
    response.writeHead(200, [...this.#headers(), ...streamHeaders(this.#format)])
    response.write(this.#format.start)
    return true
  }

  send(json: string, onRead: () => void): boolean {
    this.#lastWrite = performance.now()
    const isRead = this.#response.write(this.#format.next(json))
    if (!isRead) this.#response.once('drain', onRead)
    return isRead
  }

  /** Sends a heartbeat if nothing was sent for a while, in milliseconds, and all was read. */
  keepAlive(pauseMs: number): void {
    const response = this.#response
    if (!response.headersSent || response.writableNeedDrain || performance.now() - this.#lastWrite < pauseMs)
      return
    this.#lastWrite = performance.now()
    response.write(this.#format.heartbeat)
  }

  fail({ message, extensions }: NthError): void {
    const { failure, complete } = this.#format
    this.#response.end(failure(JSON.stringify({ errors: [{ message, extensions }] })) + complete)
  }

  /**
   * If its client hasn't read it, the connection is broken; otherwise its last chunk is sent, as a proxy takes a connection
   * that just ends for a fault of the server.
   */
  break(isRead: boolean): void {
    if (isRead) this.#response.end()
    else this.#response.destroy()
  }
}

/** Sends the one result of an operation, in JSON, to a client that accepts events only. */
export function sendAsEvents(json: string, response: ServerResponse, headers: HeaderList): void {
  response.writeHead(200, [...headers, ...streamHeaders(EVENTS)])
  response.end(EVENTS.next(json) + EVENTS.complete)
}
