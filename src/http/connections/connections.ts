import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Connections of clients, and the memory that their requests use. */
export interface Connections {
  sockets(): Iterable<Socket>
  /**
   * Reserves memory for a request, until it is answered.
   *
   * @returns whether there is enough; if not, the request must be refused
   */
  take(request: IncomingMessage, bytes: number): boolean
  /** Releases the memory of a connection's request: its response is complete. */
  release(socket: Socket): void
}

export interface ConnectionsOptions {
  /** Maximum memory of all requests in flight, in bytes of the heap. */
  maxBytes: number
  /** Answers a request, or refuses it for lack of memory; returns when its work is done. */
  begin(request: IncomingMessage, response: ServerResponse, hasRoom: boolean): unknown
  /** Called with errors that `begin` throws; the connection is then closed. */
  onFault(error: unknown): void
}

interface Connection {
  /** Response to the request that was started. */
  begun: ServerResponse | undefined
  /** Unfinished parts of that request: its work, and sending its response. Work continues after a disconnect. */
  unfinished: 0 | 1 | 2
  /** Memory reserved for it. */
  bytes: number
  /** Responses to the requests after it. */
  waiting: ServerResponse[]
}

/** Memory of a request itself, in bytes. Measured on Node 20 with few headers: 5 kB. */
const BYTES_A_REQUEST = 8_000

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
 */
export function openConnections(server: Server, options: ConnectionsOptions): Connections {
  const { maxBytes, begin, onFault } = options
  const connections = new Map<Socket, Connection>()
  let taken = 0

  server.on('connection', (socket) => {
    const connection: Connection = { begun: undefined, unfinished: 0, bytes: 0, waiting: [] }
    connections.set(socket, connection)
    // Node also resumes a socket itself, for example when a response has drained.
    socket.on('resume', () => connection.waiting.length > 0 && socket.pause())
    socket.on('close', () => {
      forgetWaiting(connection)
      if (!connection.begun) connections.delete(socket)
    })
  })

  server.on('request', (request, response) => {
    const { socket } = request
    const connection = connections.get(socket)
    // Node parses the rest of what it has read even after the connection ended.
    if (!connection || socket.destroyed) return
    taken += BYTES_A_REQUEST
    if (!connection.begun) return start(connection, response)
    connection.waiting.push(response)
    // Requests that wait can't be refused before those ahead of them are answered.
    if (taken > maxBytes) socket.destroy()
    else socket.pause()
  })

  async function start(connection: Connection, response: ServerResponse): Promise<void> {
    connection.begun = response
    connection.unfinished = 2
    response.on('close', onClose)
    try {
      await begin(response.req, response, taken <= maxBytes)
    } catch (error) {
      onFault(error)
      response.destroy()
    }
    finishPart(connection, response.req.socket)
  }

  function onClose(this: ServerResponse): void {
    const { socket } = this.req
    const connection = connections.get(socket)
    if (connection) finishPart(connection, socket)
  }

  function finishPart(connection: Connection, socket: Socket): void {
    connection.unfinished = connection.unfinished === 2 ? 1 : 0
    if (connection.unfinished > 0) return
    connection.begun = undefined
    taken -= BYTES_A_REQUEST + connection.bytes
    connection.bytes = 0
    // Nothing is started that can't be answered.
    if (!socket.writable) forgetWaiting(connection)
    if (socket.destroyed) connections.delete(socket)
    const next = connection.waiting.shift()
    if (!next) return
    if (connection.waiting.length === 0) socket.resume()
    start(connection, next)
  }

  function forgetWaiting({ waiting }: Connection): void {
    taken -= waiting.length * BYTES_A_REQUEST
    waiting.length = 0
  }

  return {
    sockets: () => connections.keys(),

    take({ socket }, bytes) {
      const connection = connections.get(socket)
      if (!connection) return false
      taken += bytes
      connection.bytes += bytes
      const others = taken - connection.bytes - BYTES_A_REQUEST
      // Half of the memory is for small requests, so that a few large ones can't block all others.
      const room = connection.bytes > LARGE_BYTES ? maxBytes / 2 : maxBytes
      // A request that is alone always has enough.
      return taken <= room || others === 0
    },

    release(socket) {
      const connection = connections.get(socket)
      if (!connection?.begun?.writableEnded) return
      taken -= connection.bytes
      connection.bytes = 0
    },
  }
}

/** Requests that use more than this are large. */
const LARGE_BYTES = 1_000_000
