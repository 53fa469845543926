import type { ServerResponse } from 'node:http'
import { type ExecutionArgs, type ExecutionResult, execute } from 'graphql'
import type { Context } from '../graphql/context.ts'
import { selectedPeriods } from '../graphql/selections.ts'
import type { Notices } from '../operations/log.ts'
import type { Watched } from '../repository/live.ts'
import { type ErrorCode, NthError, unavailable } from '../rules/errors.ts'
import type { Caller } from '../rules/rights.ts'
import { type Owner, SharedOwner } from '../rules/turns.ts'
import type { CompiledOperation } from './documents.ts'
import { finalResult, type HeaderList, NOT_CACHED } from './errors.ts'

/** First events: all streams that join before their states are read share one execution. */
interface Opening {
  streams: Set<Stream>
  first: Promise<ExecutionResult>
}

interface LiveQueryOptions extends Pick<Context, 'nth' | 'gate' | 'caller'> {
  args: ExecutionArgs
  /** The same operation, if it could be compiled: an event takes 47 µs of processor time then, and else 78 (Node 20). */
  compiled: CompiledOperation | undefined
  notices: Notices
}

export type LiveQuery = ReturnType<typeof openLiveQuery>

/**
 * All streams with the same operation, variables and rights: each event is executed once, and sent to all of them. A
 * stream that is not ready collects what it misses, and gets its newest state when it is.
 */
export function openLiveQuery({ args, compiled, nth, gate, caller, notices }: LiveQueryOptions) {
  const owner = new SharedOwner()
  const streams = new Set<Stream>()
  const feed = nth.live.open({ onChanged, periods: selectedPeriods(args) })
  let opening: Opening | undefined

  function open(): Opening {
    const own: Opening = { streams: new Set(), first: Promise.resolve({}) }
    const watch: Context['watch'] = async (topics) => {
      const watched = await nth.live.watch(feed, topics)
      // These get what changes from now on. Those that join later need a newer state.
      for (const stream of own.streams) streams.add(stream)
      end(own)
      return watched
    }
    own.first = run({ watch }).finally(() => end(own))
    return own
  }

  function end(ended: Opening): void {
    if (opening === ended) opening = undefined
  }

  async function run(own: Pick<Context, 'watch'>, rootValue?: readonly Watched[]): Promise<ExecutionResult> {
    // Errors of compiled code lack details.
    const quick =
      rootValue &&
      (await compiled?.execute({ nth, gate, caller, owner }, args.variableValues ?? undefined, rootValue))
    if (quick && !quick.errors) return quick
    const contextValue: Context = { nth, gate, caller, owner, ...own }
    return finalResult(await execute({ ...args, rootValue, contextValue }), false, notices)
  }

  /** The result, in JSON, with the newest states of what changed; undefined: none of it exists. */
  async function resultOf(changed: Iterable<Watched>): Promise<string | undefined> {
    const present = [...changed].filter(({ state }) => state !== null)
    if (present.length === 0) return undefined
    await gate.untilRoom(present.length, owner)
    const result = await run({}, present)
    const isUnread = result.errors?.some(
      ({ extensions }) => extensions.code === ('UNAVAILABLE' satisfies ErrorCode),
    )
    if (isUnread) throw unavailable('The changes could not be read.')
    return JSON.stringify(result)
  }

  async function onChanged(changed: ReadonlySet<Watched>): Promise<void> {
    const ready: Stream[] = []
    for (const stream of streams) {
      if (stream.state === 'ready') ready.push(stream)
      else for (const watched of changed) stream.missed.add(watched)
    }
    if (ready.length === 0) return
    const json = await resultOf(changed)
    if (json !== undefined) for (const stream of ready) stream.write(json, () => void catchUp(stream))
  }

  /** Sends what a stream has missed. What changes meanwhile is missed as well, so that nothing older follows. */
  async function catchUp(stream: Stream): Promise<void> {
    try {
      while (stream.missed.size > 0 && stream.state !== 'closed') {
        const { missed } = stream
        stream.missed = new Set()
        const json = await resultOf(missed)
        if (json !== undefined && !stream.write(json, () => void catchUp(stream))) return
      }
    } catch (error) {
      if (!(error instanceof NthError)) notices.fault(error)
      // The client connects again, and gets everything.
      stream.break()
    }
    if (stream.state === 'behind') stream.state = 'ready'
  }

  return {
    /** Returns the result for the first event of a stream. */
    join(stream: Stream): Promise<ExecutionResult> {
      owner.join(stream.owner)
      opening ??= open()
      opening.streams.add(stream)
      return opening.first
    },

    /** Sends the first event of a stream that was started, and then what changes. */
    serve(stream: Stream, first: ExecutionResult): void {
      if (stream.write(JSON.stringify(first), () => void catchUp(stream))) void catchUp(stream)
    },

    /** Whether a stream gets what changes. Otherwise its first event was refused, or there is nothing to watch. */
    isSent: (stream: Stream) => streams.has(stream),

    leave(stream: Stream): void {
      streams.delete(stream)
      owner.members.delete(stream.owner)
      opening?.streams.delete(stream)
    },

    /** How many names it watches. */
    get size() {
      return feed.entries.size
    },

    close: () => nth.live.closeFeed(feed),
  }
}

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

/**
 * Server-sent events, as the protocol GraphQL over SSE has them in its mode of distinct connections:
 * https://github.com/enisdenjo/graphql-sse/blob/master/PROTOCOL.md
 */
const EVENTS: StreamFormat = {
  contentType: `${EVENT_STREAM}; charset=utf-8`,
  start: '',
  next: eventOfResult,
  failure: eventOfResult,
  heartbeat: ':\n\n',
  // Browsers ignore events without data.
  complete: 'event: complete\ndata:\n\n',
}

function eventOfResult(json: string): string {
  return `event: next\ndata: ${json}\n\n`
}

/**
 * Apollo's multipart protocol. A client takes a part for whole when the boundary after it has arrived, so each part ends
 * with that: https://www.apollographql.com/docs/graphos/routing/operations/subscriptions/multipart-protocol
 */
const PARTS: StreamFormat = {
  contentType: 'multipart/mixed;boundary="graphql";subscriptionSpec=1.0',
  start: '\r\n--graphql',
  next: (json) => partOf(`{"payload":${json}}`),
  // As an error of the protocol, beside an empty payload.
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

/**
 * Where a stream is.
 *
 *   opening   its first event is being executed
 *   ready     it is sent the next event at once
 *   behind    its client has not read what was sent: what changes is collected, and sent in its newest state later
 *   closed
 */
type StreamState = 'opening' | 'ready' | 'behind' | 'closed'

/** The results of a subscription, to one client. */
export class Stream {
  readonly caller: Caller
  /** Whose turns its work has. */
  readonly owner: Owner
  readonly #format: StreamFormat
  state: StreamState = 'opening'
  /** What has changed while it was not ready. */
  missed = new Set<Watched>()
  /** On the clock of `performance.now()`, in milliseconds. */
  #lastWrite = 0
  #response: ServerResponse | undefined
  readonly #onClosed: () => void

  /** @param onClosed called once, however it is closed */
  constructor(caller: Caller, owner: Owner, format: StreamFormat, onClosed: () => void) {
    this.caller = caller
    this.owner = owner
    this.#format = format
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
    response.writeHead(200, [...headers, ...streamHeaders(this.#format)])
    response.write(this.#format.start)
    this.state = 'behind'
  }

  /** Sends a result, in JSON. Returns false if the client hasn't read it yet; then `onRead` is called when it has. */
  write(json: string, onRead: () => void): boolean {
    const response = this.#response
    if (!response || this.state === 'closed') return true
    this.#lastWrite = performance.now()
    if (response.write(this.#format.next(json))) return true
    this.state = 'behind'
    response.once('drain', onRead)
    return false
  }

  /** Sends a heartbeat if nothing was sent for a while, in milliseconds. */
  keepAlive(pauseMs: number): void {
    if (this.state !== 'ready' || performance.now() - this.#lastWrite < pauseMs) return
    this.#lastWrite = performance.now()
    this.#response?.write(this.#format.heartbeat)
  }

  /** Ends the subscription with errors. */
  fail(result: Required<Pick<ExecutionResult, 'errors'>>): void {
    const { failure, complete } = this.#format
    this.#response?.end(failure(JSON.stringify(result)) + complete)
    this.close()
  }

  /**
   * Ends the response without saying that it is complete: clients connect again. If its client hasn't read it, the connection
   * is broken; otherwise its last chunk is sent, as a proxy takes a connection that just ends for a fault of the server.
   */
  break(): void {
    if (this.state === 'ready') this.#response?.end()
    else this.#response?.destroy()
    this.close()
  }

  /** Gives it up, whether it was started or not. */
  close(): void {
    if (this.state === 'closed') return
    this.state = 'closed'
    this.#onClosed()
  }
}

/** Sends the one result of an operation, in JSON, to a client that accepts events only. */
export function sendAsEvents(json: string, response: ServerResponse, headers: HeaderList): void {
  response.writeHead(200, [...headers, ...streamHeaders(EVENTS)])
  response.end(EVENTS.next(json) + EVENTS.complete)
}
