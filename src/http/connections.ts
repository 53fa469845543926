import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** The connections of callers, and what their requests take together. */
export interface Connections {
  sockets(): Iterable<Socket>
  /**
   * Counts memory towards what a request takes, until it is answered.
   *
   * @returns whether there is room for it; if not, the request is to be refused
   */
  take(request: IncomingMessage, bytes: number): boolean
  /** Counts no longer what a connection's request takes: its answer is made. */
  release(socket: Socket): void
}

export interface ConnectionsOptions {
  /** The most that requests under way may take together, in bytes of the heap. */
  maxBytes: number
  /** Answers a request, or refuses it as one for which there is no room; returns when its work is done. */
  begin(request: IncomingMessage, response: ServerResponse, hasRoom: boolean): unknown
  /** Told of what `begin` throws; the connection is ended then. */
  onFault(error: unknown): void
}

interface Connection {
  /** The answer to the request that was begun. */
  begun: ServerResponse | undefined
  /** What of that request is not over: its work, and its answer on its way. Work goes on when the caller has gone. */
  unfinished: 0 | 1 | 2
  /** What it takes. */
  bytes: number
  /** The answers to the requests after it. */
  waiting: ServerResponse[]
}

/** What a request takes by itself. Measured on Node 20 with few headers: 5 kB. */
const BYTES_A_REQUEST = 8_000

/**
 * Has each connection's requests answered one after another, and all of them together take a bounded memory.
 *
 * States of a connection:
 * - idle: no request was begun, none waits.
 * - busy: one was begun, none waits. It is read on, as the body of that one may still come.
 * - ahead: one was begun, and others wait that came with it. It isn't read until the last of them is begun.
 *
 * So at most one request of a connection is begun and not answered, and what waits came in one read of the
 * socket (64 kB). What waits is forgotten when its caller goes away.
 */
export function openConnections(server: Server, options: ConnectionsOptions): Connections {
  const { maxBytes, begin, onFault } = options
  const connections = new Map<Socket, Connection>()
  let taken = 0

  server.on('connection', (socket) => {
    const connection: Connection = { begun: undefined, unfinished: 0, bytes: 0, waiting: [] }
    connections.set(socket, connection)
    // Node also reads on by itself, as when an answer is drained.
    socket.on('resume', () => connection.waiting.length > 0 && socket.pause())
    socket.on('close', () => {
      forgetWaiting(connection)
      if (!connection.begun) connections.delete(socket)
    })
  })

  server.on('request', (request, response) => {
    const { socket } = request
    const connection = connections.get(socket)
    // Node parses the rest of what it has read when a connection has ended.
    if (!connection || socket.destroyed) return
    taken += BYTES_A_REQUEST
    if (!connection.begun) return start(connection, response)
    connection.waiting.push(response)
    // Those that wait can't be refused before their turn.
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
    // Where nothing can be answered, nothing is begun.
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
      // Half of the room is for small requests, so that few large ones don't keep everybody out.
      const room = connection.bytes > LARGE_BYTES ? maxBytes / 2 : maxBytes
      // One that is alone always has room.
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

/** From here on a request is a large one. */
const LARGE_BYTES = 1_000_000
