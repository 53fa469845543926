/*
 * Subscriptions over WebSockets: the protocol `graphql-transport-ws`, as Apollo, urql, Relay and others speak it.
 * https://github.com/graphql/graphql-over-http/blob/main/rfcs/GraphQLOverWebSocket.md
 */
import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'
import { GRAPHQL_TRANSPORT_WS_PROTOCOL } from 'graphql-ws'
import { WebSocketServer } from 'ws'
import { type Credential, takeCredential } from './authentication.ts'
import { MAX_BODY_BYTES } from './body.ts'
import { endWith } from './connections.ts'
import { HttpError } from './errors.ts'
import { GraphqlSocket, type SocketOptions } from './graphqlSocket.ts'

/** Why a request may not open a WebSocket; undefined: it may. */
type Refuse = (request: IncomingMessage) => HttpError | undefined

export const MAX_FRAGMENTS = 256
/** Time for a client to answer that it closes, too. */
const LINGER_MS = 1000

/** Not in the types of `ws`. */
const CLOSE_OPTIONS = { closeTimeout: LINGER_MS }

/** Serves WebSockets on a server. */
export function openSockets(server: Server, refuse: Refuse, options: SocketOptions) {
  const open = new Set<GraphqlSocket>()
  const webSockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    // What a client compresses could fill the memory.
    perMessageDeflate: false,
    maxPayload: MAX_BODY_BYTES,
    maxFragments: MAX_FRAGMENTS,
    // Each would be a write of its own.
    autoPong: false,
    ...CLOSE_OPTIONS,
    handleProtocols: (names) => names.has(GRAPHQL_TRANSPORT_WS_PROTOCOL) && GRAPHQL_TRANSPORT_WS_PROTOCOL,
  })

  webSockets.on('wsClientError', ({ message }, socket) => {
    const error = new HttpError(400, 'BAD_REQUEST', `This is no WebSocket handshake: ${message}.`)
    endWith(socket as Socket, error)
  })

  // Node asks this from 24.9 on, and reads all other requests as usual. On Node 26, one with a body can't be read again.
  Object.assign(server, { shouldUpgradeCallback: isWebSocket })
  server.on('upgrade', (request: IncomingMessage, stream, head: Buffer) => {
    // A server of HTTP has no other streams.
    const socket = stream as Socket
    if (!isWebSocket(request)) return readAgain(server, request, head)
    const credential = takeCredential(request)
    const error = credential instanceof HttpError ? credential : refuse(request)
    if (error) return endWith(socket, error)
    webSockets.handleUpgrade(request, socket, head, (webSocket) => {
      const opened = new GraphqlSocket(webSocket, request, credential as Credential | undefined, options)
      open.add(opened)
      webSocket.on('close', () => open.delete(opened))
    })
  })

  return {
    /** Closes those whose clients haven't said who they are; the others are broken with the live queries. */
    close(): void {
      for (const socket of open) if (!socket.isConnected) socket.break()
    },
  }
}

function isWebSocket({ headers }: IncomingMessage): boolean {
  return headers.upgrade?.toLowerCase() === 'websocket'
}

/**
 * Answers a request that offers another protocol, such as h2c, as if it did not, as servers may (RFC 9110, 7.8). Earlier
 * versions of Node have already stopped to read it as a request, so it is read again, without the offer.
 */
function readAgain(server: Server, { method, url, rawHeaders, socket }: IncomingMessage, head: Buffer): void {
  const lines = [`${method} ${url} HTTP/1.1`]
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const [name = '', value] = rawHeaders.slice(index, index + 2)
    if (!/^(upgrade|http2-settings|connection)$/i.test(name)) lines.push(`${name}: ${value}`)
  }
  socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]))
  server.emit('connection', socket)
}
