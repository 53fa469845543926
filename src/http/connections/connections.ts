import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type HttpError, rawResponse } from './httpError.ts'

interface ConnectionsOptions {
  /** Maximum memory of all requests in flight, in bytes of the heap. */
  maxBytes: number
  /** Maximum unread data on all connections together, in bytes. */
  maxUnreadBytes: number
  /** How long a client may read nothing of its response, in milliseconds. */
  stallMs: number
  /** Counts a new connection; returns an error if it must be refused. */
  refuse(socket: Socket): HttpError | undefined
  /** Answers a request, or rejects it for lack of memory; returns when its work is done. */
  handle(request: IncomingMessage, response: ServerResponse, hasMemory: boolean): unknown
  /** Called with errors that `handle` throws; the connection is then closed. */
  onFault(error: unknown): void
}

interface Connection {
  /** The request that was started, until its work is done and its response sent. Work continues after a disconnect. */
  current: { response: ServerResponse; reservedBytes: number } | undefined
  /** Responses to the requests after it. */
  waiting: ServerResponse[]
}

/** Memory of a request itself, in bytes. Measured on Node 20 with few headers: 5 kB. */
const BYTES_A_REQUEST = 8_000

/** Requests that use more than this are large. */
const LARGE_BYTES = 1_000_000

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
 * Connections whose clients don't read their responses are closed: those that read nothing for a while, and those with
 * the most unread data when the total is too large. A connection has at most one unread response.
 */
export function openConnections(server: Server, options: ConnectionsOptions) {
  const { maxBytes, maxUnreadBytes, stallMs, refuse, handle, onFault } = options
  const connections = new Map<Socket, Connection>()
  let usedBytes = 0
  let isEnding = false

  server.on('listening', () => {
    // Periodically, because nearly every response is read at once: a check of each would cost every request.
    const timer = setInterval(closeSlowReaders, Math.min(CHECK_MS, stallMs / 4)).unref()
    server.on('close', () => clearInterval(timer))
  })

  server.on('connection', (socket) => {
    const error = refuse(socket)
    // Its requests are ignored.
    if (error) return endWith(socket, error)
    const connection: Connection = { current: undefined, waiting: [] }
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
    usedBytes += BYTES_A_REQUEST
    if (!connection.current) return answer(connection, response)
    connection.waiting.push(response)
    // Requests that wait can't be rejected before those ahead of them are answered.
    if (usedBytes > maxBytes) socket.destroy()
    else socket.pause()
  })

  async function answer(connection: Connection, response: ServerResponse): Promise<void> {
    const { req: request } = response
    const current = { response, reservedBytes: 0 }
    if (isEnding) response.shouldKeepAlive = false
    connection.current = current
    const closed = new Promise((resolve) => response.on('close', resolve))
    try {
      await handle(request, response, usedBytes <= maxBytes)
    } catch (error) {
      onFault(error)
      response.destroy()
    }
    await closed
    connection.current = undefined
    usedBytes -= BYTES_A_REQUEST + current.reservedBytes
    const { socket } = request
    // Nothing is started that can't be answered.
    if (!socket.writable) dropWaiting(connection)
    if (socket.destroyed) connections.delete(socket)
    const next = connection.waiting.shift()
    if (!next) return
    if (connection.waiting.length === 0) socket.resume()
    answer(connection, next)
  }

  function dropWaiting({ waiting }: Connection): void {
    usedBytes -= waiting.length * BYTES_A_REQUEST
    waiting.length = 0
  }

  function closeSlowReaders(): void {
    const unread: Socket[] = []
    for (const [socket, { current }] of connections) {
      if (socket.writableLength > 0) {
        unread.push(socket)
        // A complete response needs the memory of its request no more.
        if (current?.response.writableEnded) {
          usedBytes -= current.reservedBytes
          current.reservedBytes = 0
        }
        // Node restarts the timeout whenever data is read, and closes the connection when it expires.
        if (socket.timeout !== stallMs) socket.setTimeout(stallMs)
      } else if (socket.timeout === stallMs) {
        // Its response was read, and another request was started.
        socket.setTimeout(0)
      }
    }
    let unreadBytes = unread.reduce((sum, { writableLength }) => sum + writableLength, 0)
    const largestFirst = unread.toSorted((a, b) => b.writableLength - a.writableLength)
    // The last one stays, however large it is.
    for (const socket of largestFirst.slice(0, -1)) {
      if (unreadBytes <= maxUnreadBytes) return
      unreadBytes -= socket.writableLength
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

    /** Releases what was reserved for a request that is answered for a long time. */
    release({ socket }: IncomingMessage): void {
      const current = connections.get(socket)?.current
      if (!current) return
      usedBytes -= current.reservedBytes
      current.reservedBytes = 0
    },

    /** Reserves heap for a request, in bytes, until it is answered. If there isn't enough, it must be rejected. */
    reserve({ socket }: IncomingMessage, bytes: number): boolean {
      const current = connections.get(socket)?.current
      if (!current) return false
      usedBytes += bytes
      current.reservedBytes += bytes
      // Half of the memory is for small requests, so that a few large ones can't block all others.
      const limit = current.reservedBytes > LARGE_BYTES ? maxBytes / 2 : maxBytes
      // A request that is alone always has enough.
      return usedBytes <= limit || usedBytes === current.reservedBytes + BYTES_A_REQUEST
    },
  }
}

/** Time for a client to read why it was disconnected: closed at once, the connection would be reset. */
const LINGER_MS = 1000

function endWith(socket: Socket, error: HttpError): void {
  socket.end(rawResponse(error))
  setTimeout(() => socket.destroy(), LINGER_MS).unref()
}

type Connections = ReturnType<typeof openConnections>
export type Reserve = Connections['reserve']
export type Release = Connections['release']
