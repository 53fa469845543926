import { IncomingMessage, type Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Notices } from '../operations/log.ts'
import { type ClientKey, type Clients, Counts } from './clients.ts'
import { type HttpError, sendError } from './errors.ts'

interface ConnectionsOptions {
  /** Maximum memory of all requests in flight, in bytes of the heap. */
  maxBytes: number
  /** Maximum unread data on all connections together, in bytes. */
  maxUnreadBytes: number
  /** How long a client may read nothing of its response, in milliseconds. */
  stallMs: number
  clients: Clients
  /** Answers a request; returns when its work is done. */
  handle(request: IncomingMessage, response: ServerResponse): unknown
  /** Get the errors that `handle` throws; the connection is then closed. */
  notices: Notices
}

/** A request and its response. */
interface Exchange {
  response: ServerResponse
  client: ClientKey
  /** Memory that it was charged for, in bytes. */
  bytes: number
}

interface ClientConnection {
  /** The request that was started, until its work is done and its response sent. Work continues after a disconnect. */
  current: Exchange | undefined
  /** The requests after it. */
  waiting: Exchange[]
}

/** Memory of a request itself, in bytes. Measured on Node 20 with few headers: 5 kB. */
const BYTES_A_REQUEST = 8_000

/** Requests with more text than this are large, in bytes or characters. */
const LARGE_TEXT = 16_000

/** Requests of a connection that may wait in any case: an honest client sends no more before it is answered. */
const MAX_SURELY_WAITING = 8

/** A process with less memory for requests refuses most of them, in bytes. */
const NEARLY_FULL_BYTES = 64_000

const CHECK_MS = 1000

/**
 * Answers the requests of each connection one after another, and bounds the memory of all of them.
 *
 * States of a connection:
 * - idle: no request was started, none waits.
 * - busy: one was started, none waits. The socket is still read, as the body of that one may still arrive.
 * - ahead: one was started, and others wait that arrived with it. The socket isn't read until the last of them is
 *   started.
 *
 * So at most one request of a connection is started and not answered, and those that wait arrived in one read of the
 * socket (64 kB). They are dropped when the client disconnects.
 *
 * Connections whose clients don't read their responses are closed: connections that read nothing for a while and, when
 * the total is too large, connections of the clients with the most unread data. A connection has at most one unread response.
 */
export function openConnections(server: Server, options: ConnectionsOptions) {
  const { maxBytes, maxUnreadBytes, stallMs, clients, handle, notices } = options
  const connections = new Map<Socket, ClientConnection>()
  const budget = new MemoryBudget(maxBytes)
  let isEnding = false

  server.on('listening', () => {
    // Periodically, because nearly every response is read at once: a check of each would cost every request.
    const timer = setInterval(closeSlowReaders, Math.min(CHECK_MS, stallMs / 4)).unref()
    server.on('close', () => clearInterval(timer))
  })

  server.on('connection', (socket) => {
    // The socket is read again.
    if (connections.has(socket)) return
    const error = clients.refuse(socket)
    // Requests of a refused connection are ignored.
    if (error) return endWith(socket, error)
    const connection: ClientConnection = { current: undefined, waiting: [] }
    connections.set(socket, connection)
    // Node also resumes a socket itself, for example when a response has drained.
    socket.on('resume', () => connection.waiting.length > 0 && socket.pause())
    socket.on('close', () => {
      dropWaiting(connection)
      if (!connection.current) connections.delete(socket)
    })
  })

  server.on('request', (request, response) => {
    const { socket } = request
    const connection = connections.get(socket)
    // Node parses the rest of what it has read even after the connection ended.
    if (!connection || socket.destroyed) return
    const exchange: Exchange = { response, client: clients.limited(request), bytes: BYTES_A_REQUEST }
    budget.charge(exchange.client, BYTES_A_REQUEST)
    if (!connection.current) return answer(connection, exchange)
    connection.waiting.push(exchange)
    const isOneOfMany = connection.waiting.length > MAX_SURELY_WAITING
    // Requests that wait can't be rejected before those ahead of them are answered.
    if (isOneOfMany && !budget.hasRoom(exchange.client, false)) socket.destroy()
    else socket.pause()
  })

  async function answer(connection: ClientConnection, exchange: Exchange): Promise<void> {
    const { response } = exchange
    const { req: request } = response
    if (isEnding) response.shouldKeepAlive = false
    connection.current = exchange
    const closed = new Promise((resolve) => response.on('close', resolve))
    try {
      await handle(request, response)
    } catch (error) {
      notices.fault(error)
      response.destroy()
    }
    // A complete response needs the memory of its request no more, also if its client is slow to read it.
    if (response.writableEnded) giveBack(exchange)
    await closed
    connection.current = undefined
    if (exchange.bytes > 0) giveBack(exchange)
    const { socket } = request
    // Nothing is started that can't be answered.
    if (!socket.writable) dropWaiting(connection)
    if (socket.destroyed) connections.delete(socket)
    const next = connection.waiting.shift()
    if (!next) return
    if (connection.waiting.length === 0) socket.resume()
    answer(connection, next)
  }

  function giveBack(exchange: Exchange): void {
    budget.charge(exchange.client, -exchange.bytes)
    exchange.bytes = 0
  }

  function dropWaiting({ waiting }: ClientConnection): void {
    waiting.forEach(giveBack)
    waiting.length = 0
  }

  function closeSlowReaders(): void {
    const unread: { socket: Socket; bytes: number; client: ClientKey | Socket }[] = []
    const totals = new Map<ClientKey | Socket, number>()
    let unreadBytes = 0
    for (const [socket, { current }] of connections) {
      const bytes = socket.writableLength
      if (bytes > 0) {
        const client = current?.client ?? socket
        unread.push({ socket, bytes, client })
        totals.set(client, (totals.get(client) ?? 0) + bytes)
        unreadBytes += bytes
        // Node restarts the timeout whenever data is read, and closes the connection when it expires.
        if (socket.timeout !== stallMs) socket.setTimeout(stallMs)
      } else if (socket.timeout === stallMs) {
        // The response was read, and another request was started.
        socket.setTimeout(0)
      }
    }
    if (unreadBytes <= maxUnreadBytes) return
    const totalOf = ({ client }: { client: ClientKey | Socket }) => totals.get(client) ?? 0
    const mostFirst = unread.toSorted((a, b) => totalOf(b) - totalOf(a) || b.bytes - a.bytes)
    // The last one stays, however large it is.
    for (const { socket, bytes } of mostFirst.slice(0, -1)) {
      if (unreadBytes <= maxUnreadBytes) return
      unreadBytes -= bytes
      socket.destroy()
    }
  }

  return {
    /** Closes connections that browsers have opened in advance: to Node they are idle only after a request. */
    closeUnused(): void {
      for (const socket of connections.keys()) if (socket.bytesRead === 0) socket.destroy()
    },

    /** From now on each answer ends its connection, and says so: its client sends the next request on another one. */
    endWithAnswers(): void {
      isEnding = true
      for (const { current } of connections.values()) if (current) current.response.shouldKeepAlive = false
    },

    /** Whether requests are refused for lack of memory. */
    isFull: () => budget.freeBytes < Math.min(NEARLY_FULL_BYTES, maxBytes / 2),

    /** Charges memory for what is no request, such as messages; false: there isn't enough. Negative: it is given back. */
    charge(client: ClientKey, bytes: number): boolean {
      budget.charge(client, bytes)
      return bytes <= 0 || budget.hasRoom(client, false)
    },

    /** Gives back the memory of a request that is answered for a long time. */
    release({ socket }: IncomingMessage): void {
      const current = connections.get(socket)?.current
      if (current) giveBack(current)
    },

    /**
     * Reserves memory for a request until it is answered. If there isn't enough, it must be rejected.
     *
     * @param bytes negative: what was reserved before and isn't needed any more
     * @param textLength length of the text that it is for, in bytes or characters
     */
    reserve({ socket }: IncomingMessage, bytes: number, textLength: number): boolean {
      const current = connections.get(socket)?.current
      if (!current) return false
      budget.charge(current.client, bytes)
      current.bytes += bytes
      if (budget.hasRoom(current.client, textLength > LARGE_TEXT)) return true
      // A request that is alone always has enough.
      return maxBytes - budget.freeBytes === current.bytes
    },
  }
}

/** Time for a client to read why it was disconnected: closed at once, the connection would be reset. */
const LINGER_MS = 1000

/** Ends a connection with an error. */
export function endWith(socket: Socket, error: HttpError): void {
  const response = new ServerResponse(new IncomingMessage(socket))
  response.shouldKeepAlive = false
  response.assignSocket(socket)
  response.on('finish', () => socket.end())
  // Node no longer listens to the socket of an upgrade, and an error without a listener ends the process.
  socket.on('error', () => socket.destroy())
  sendError(response, error)
  setTimeout(() => socket.destroy(), LINGER_MS).unref()
}

export type Connections = ReturnType<typeof openConnections>

/**
 * Memory that clients share, in bytes of the heap. A client may hold as much as is free: alone half of it all, beside n
 * others that take what they can a part of n + 2. So whatever the others do, the same amount is left for one more.
 */
export class MemoryBudget {
  readonly #maxBytes: number
  readonly #held = new Counts()
  #usedBytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get freeBytes(): number {
    return this.#maxBytes - this.#usedBytes
  }

  /**
   * Charges a client, whether or not it may hold that much; a negative amount is given back.
   *
   * @param sharedBytes what it adds to the memory in use, if the client shares a part of it with others
   */
  charge(client: ClientKey, bytes: number, sharedBytes = bytes): void {
    this.#usedBytes += sharedBytes
    if (client !== undefined) this.#held.add(client, bytes)
  }

  /** 0 of one without limits. */
  heldBy(client: ClientKey): number {
    return this.#held.of(client)
  }

  /**
   * Whether a client that was charged may go on.
   *
   * @param isLarge one without limits may use only half of the memory for what is large, so that what is small has room
   */
  hasRoom(client: ClientKey, isLarge: boolean): boolean {
    const freeBytes = this.#maxBytes - this.#usedBytes
    if (client !== undefined) return this.heldBy(client) <= freeBytes
    return freeBytes >= (isLarge ? this.#maxBytes / 2 : 0)
  }
}
