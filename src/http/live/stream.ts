import type { ServerResponse } from 'node:http'
import type { ExecutionResult } from 'graphql'
import type { Caller } from '../../core/access/caller.ts'
import type { Watched } from '../../repository/live.ts'
import { type HeaderList, NOT_CACHED } from '../connections/httpError.ts'

/*
 * Server-sent events, as the protocol GraphQL over SSE has them in its mode of distinct connections:
 * https://github.com/enisdenjo/graphql-sse/blob/master/PROTOCOL.md
 */

export const EVENT_STREAM = 'text/event-stream'

/** Headers of a stream. Proxies must not collect its events before they pass them on; nginx reads the last one. */
const STREAM_HEADERS: HeaderList = [
  ...['content-type', `${EVENT_STREAM}; charset=utf-8`],
  ...NOT_CACHED,
  ...['x-accel-buffering', 'no'],
]

/** The end of a subscription. Browsers ignore events without data. */
const COMPLETE = 'event: complete\ndata:\n\n'

/** A comment: proxies close connections on which nothing is sent. */
const HEARTBEAT = ':\n\n'

/**
 * Where a stream is.
 *
 *   opening   its first event is being executed
 *   ready     it is sent the next event at once
 *   behind    its client has not read what was sent: what changes is collected, and sent in its newest state later
 *   closed
 */
type StreamState = 'opening' | 'ready' | 'behind' | 'closed'

/** The events of a subscription, to one client. */
export class Stream {
  readonly caller: Caller
  state: StreamState = 'opening'
  /** What has changed while it was not ready. */
  missed = new Set<Watched>()
  /** On the clock of `performance.now()`, in milliseconds. */
  #lastWrite = 0
  #response: ServerResponse | undefined
  readonly #onClosed: () => void

  /** @param onClosed called once, however it is closed */
  constructor(caller: Caller, onClosed: () => void) {
    this.caller = caller
    this.#onClosed = onClosed
  }

  /** Starts the response. */
  start(response: ServerResponse, headers: HeaderList): void {
    this.#response = response
    response.on('close', () => this.close())
    // A client that has ended its side reads no more events. The server's sockets stay open then, for other responses.
    const { socket } = response
    socket?.once('end', () => this.break())
    // Closed before it was started, such as by a revocation of its key. The client connects again, and gets the reason.
    if (this.state === 'closed' || response.destroyed || socket?.readableEnded) {
      this.break()
      return
    }
    response.writeHead(200, [...headers, ...STREAM_HEADERS])
    this.state = 'behind'
  }

  /** Sends events. Returns false if the client hasn't read them yet; then `onRead` is called when it has. */
  write(events: string, onRead: () => void): boolean {
    const response = this.#response
    if (!response || this.state === 'closed') return true
    this.#lastWrite = performance.now()
    if (response.write(events)) return true
    this.state = 'behind'
    response.once('drain', onRead)
    return false
  }

  /** Sends a comment if nothing was sent for a while, in milliseconds. */
  keepAlive(pauseMs: number): void {
    if (this.state !== 'ready' || performance.now() - this.#lastWrite < pauseMs) return
    this.#lastWrite = performance.now()
    this.#response?.write(HEARTBEAT)
  }

  /** Ends the subscription: clients don't connect again by themselves. */
  complete(lastEvents: string): void {
    this.#response?.end(lastEvents + COMPLETE)
    this.close()
  }

  /** Breaks the connection: clients connect again. */
  break(): void {
    this.#response?.destroy()
    this.close()
  }

  /** Gives it up, whether it was started or not. */
  close(): void {
    if (this.state === 'closed') return
    this.state = 'closed'
    this.#onClosed()
  }
}

/** Sends the one result of a query or mutation to a client that accepts events only. */
export function sendAsEvents(result: ExecutionResult, response: ServerResponse, headers: HeaderList): void {
  response.writeHead(200, [...headers, ...STREAM_HEADERS])
  response.end(nextEvent(result) + COMPLETE)
}

/** A result as an event. JSON has no line breaks of its own. */
export function nextEvent(result: ExecutionResult): string {
  return `event: next\ndata: ${JSON.stringify(result)}\n\n`
}
