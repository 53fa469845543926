import type { ServerResponse } from 'node:http'
import { type ExecutionArgs, type ExecutionResult, execute } from 'graphql'
import type { Context } from '../graphql/context.ts'
import { reportedErrors } from '../graphql/fieldError.ts'
import { selectedPeriods } from '../graphql/selections.ts'
import type { Notices } from '../operations/log.ts'
import { untilRoom } from '../operations/ticks.ts'
import type { Watched } from '../repository/live.ts'
import { type ErrorCode, NthError, unavailable } from '../rules/errors.ts'
import type { Caller } from '../rules/rights.ts'
import type { CompiledOperation } from './compiledOperations.ts'
import { faultIn, type HeaderList, maskError, NOT_CACHED } from './errors.ts'

/** First events: all streams that join before their states are read share one execution. */
interface Opening {
  streams: Set<Stream>
  first: Promise<FirstResult>
}

/** `isWatching`: there is something to watch; otherwise it was refused, or needs no more than this result. */
type FirstResult = ExecutionResult & { isWatching: boolean }

interface LiveQueryOptions extends Pick<Context, 'nth' | 'caller'> {
  args: ExecutionArgs
  /** The same operation, if it could be compiled. */
  compiled: CompiledOperation | undefined
  notices: Notices
}

export type LiveQuery = ReturnType<typeof openLiveQuery>

/**
 * All streams with the same operation, variables and rights: each event is executed once, and sent to all of them. A
 * stream that is not ready collects what it misses, and gets its newest state when it is.
 */
export function openLiveQuery({ args, compiled, nth, caller, notices }: LiveQueryOptions) {
  const streams = new Set<Stream>()
  const feed = nth.live.open({ onChanged, periods: selectedPeriods(args) })
  let opening: Opening | undefined

  function open(): Opening {
    const own: Opening = { streams: new Set(), first: Promise.resolve({ isWatching: false }) }
    let isWatching = false
    const watch: Context['watch'] = async (topics) => {
      const watched = await nth.live.watch(feed, topics)
      isWatching = true
      // These get what changes from now on. Those that join later need a newer state.
      for (const stream of own.streams) streams.add(stream)
      end(own)
      return watched
    }
    own.first = run({ watch })
      .then((result) => ({ ...result, isWatching }))
      .finally(() => end(own))
    return own
  }

  function end(ended: Opening): void {
    if (opening === ended) opening = undefined
  }

  async function run(own: Pick<Context, 'watch'>, rootValue?: readonly Watched[]): Promise<ExecutionResult> {
    // Errors of compiled code lack details.
    const quick =
      rootValue && (await compiled?.execute({ nth, caller }, args.variableValues ?? undefined, rootValue))
    if (quick && !quick.errors) return quick
    const contextValue: Context = { nth, caller, ...own }
    const result = await execute({ ...args, rootValue, contextValue })
    if (!result.errors) return result
    for (const error of result.errors) {
      const fault = faultIn(error)
      if (fault !== undefined) notices.fault(fault)
    }
    return { ...result, errors: reportedErrors(result.errors).map(maskError) }
  }

  /** The event with the newest states of what changed; undefined: none of it exists. */
  async function eventOf(changed: Iterable<Watched>): Promise<string | undefined> {
    const present = [...changed].filter(({ state }) => state !== null)
    if (present.length === 0) return undefined
    await untilRoom(present.length)
    const result = await run({}, present)
    const isUnread = result.errors?.some(
      ({ extensions }) => extensions.code === ('UNAVAILABLE' satisfies ErrorCode),
    )
    if (isUnread) throw unavailable('The changes could not be read.')
    return nextEvent(result)
  }

  async function onChanged(changed: ReadonlySet<Watched>): Promise<void> {
    const ready: Stream[] = []
    for (const stream of streams) {
      if (stream.state === 'ready') ready.push(stream)
      else for (const watched of changed) stream.missed.add(watched)
    }
    if (ready.length === 0) return
    const event = await eventOf(changed)
    if (event !== undefined) for (const stream of ready) stream.write(event, () => void catchUp(stream))
  }

  /** Sends what a stream has missed. What changes meanwhile is missed as well, so that nothing older follows. */
  async function catchUp(stream: Stream): Promise<void> {
    try {
      while (stream.missed.size > 0 && stream.state !== 'closed') {
        const { missed } = stream
        stream.missed = new Set()
        const event = await eventOf(missed)
        if (event !== undefined && !stream.write(event, () => void catchUp(stream))) return
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
    join(stream: Stream): Promise<FirstResult> {
      opening ??= open()
      opening.streams.add(stream)
      return opening.first
    },

    /** Sends the first event of a stream that was started, and then what changes. */
    serve(stream: Stream, first: ExecutionResult): void {
      if (stream.write(nextEvent(first), () => void catchUp(stream))) void catchUp(stream)
    },

    leave(stream: Stream): void {
      streams.delete(stream)
      opening?.streams.delete(stream)
    },

    /** How many names it watches. */
    get size() {
      return feed.entries.size
    },

    close: () => nth.live.closeFeed(feed),
  }
}

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
