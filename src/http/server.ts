import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getHeapStatistics } from 'node:v8'
import { type NthError, unavailable } from '../core/errors.ts'
import { openConnections } from './connections/connections.ts'
import { createCors, withHeaders } from './connections/cors.ts'
import { type Access, createHostCheck, isLoopback } from './connections/hosts.ts'
import { overloaded, sendError } from './connections/sendError.ts'
import { closeSlowReaders } from './connections/slowReaders.ts'
import { createGraphqlHandler, type Handler, HEAP_BYTES_A_CHARACTER } from './graphql/graphqlHandler.ts'
import { type ApiOptions, createApi } from './graphql/yoga.ts'
import { isBook } from './pages/books.ts'
import { readPages } from './pages/pages.ts'
import { createRouter } from './routes.ts'

/** A server that listens from the start, and rejects requests until `serve` is called. */
export interface HttpServer {
  /** Where it can be reached: `http://127.0.0.1:4000`. */
  url: string
  serve(api: ApiOptions): Promise<void>
  /** Rejects new requests, and waits until those in flight are answered. May be called again. */
  close(): Promise<void>
}

/** How long requests in flight may take when the server closes, in milliseconds. */
const DRAIN_MS = 10_000
const IDLE_CHECK_MS = 20

/**
 * How long an idle connection is kept, in milliseconds: longer than proxies keep theirs, because a connection that the
 * server closes first fails the request that is being sent on it.
 */
const KEEP_ALIVE_MS = 75_000

/** How long a request may take to arrive, in milliseconds: 1 MB over a slow connection. */
const ARRIVAL_MS = 60_000

/** How long a client may read nothing of its response, in milliseconds. */
const STALL_MS = 30_000

/** Shares of the heap for requests in flight, and for unread responses. */
const REQUESTS_SHARE = 1 / 2
const UNREAD_SHARE = 1 / 8

export interface ListenOptions {
  host: string
  port: number
  /** Origins whose pages may call, besides this machine's own on a loopback server. */
  allowedOrigins: readonly string[]
  /** How long a request may take to arrive; then it is answered with 408, and its connection closed. */
  arrivalMs?: number
  /** How long a client may read nothing of its response; then its connection is closed. */
  stallMs?: number
  /** Heap limit of this process, in bytes: other limits are derived from it. */
  heapBytes?: number
  /** Called with messages for an operator. */
  warn?: (message: string) => void
}

/** @throws the system's error if it can't listen, such as EADDRINUSE */
export async function listen({
  host,
  port,
  allowedOrigins,
  arrivalMs = ARRIVAL_MS,
  stallMs = STALL_MS,
  heapBytes = getHeapStatistics().heap_size_limit,
  warn = () => undefined,
}: ListenOptions): Promise<HttpServer> {
  const server = createServer({
    keepAliveTimeout: KEEP_ALIVE_MS,
    requestTimeout: arrivalMs,
    headersTimeout: arrivalMs / 2,
    connectionsCheckingInterval: arrivalMs / 10,
  })
  // Otherwise Node closes a connection whose client has ended its side, before it is answered. Not in its types.
  Object.assign(server, { httpAllowHalfOpen: true })
  const access: Access = {
    allowedOrigins,
    get onLoopback() {
      return isLoopback(addressOf(server).address)
    },
  }
  let handle = rejectWith(unavailable('Nth is starting; try again in a moment.'))
  let onFault: ApiOptions['onFault'] = () => undefined
  const corsHeaders = createCors(access, (origin) =>
    warn(`The origin ${origin} is not allowed. To allow it, add it to NTH_ALLOWED_ORIGINS.`),
  )
  const connections = openConnections(server, {
    maxBytes: heapBytes * REQUESTS_SHARE,
    handle(request, response, hasMemory) {
      const headers = corsHeaders(request)
      if (request.method === 'OPTIONS') return response.writeHead(204, [...headers]).end()
      if (hasMemory) return handle(request, response, headers)
      return sendError(withHeaders(response, headers), 503, overloaded())
    },
    onFault: (error) => onFault(error),
  })
  // Last, as a worker may receive connections before it is notified that it listens.
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  const stopClosing = closeSlowReaders({ connections, stallMs, maxBytes: heapBytes * UNREAD_SHARE })

  return {
    url: urlOf(addressOf(server)),

    async serve(options) {
      const reserve = (request: IncomingMessage, { length }: string) =>
        connections.reserve(request, length * HEAP_BYTES_A_CHARACTER)
      const graphql = createGraphqlHandler(createApi({ ...options, reserve }), connections)
      const pages = await readPages((title) => isBook(title, options.nth))
      onFault = options.onFault
      handle = createRouter({ pages, checkHost: createHostCheck(access), graphql })
    },

    async close() {
      handle = rejectWith(unavailable('Nth is shutting down; try again in a moment.'))
      await drain(server)
      stopClosing()
    },
  }
}

async function drain(server: Server): Promise<void> {
  const closed = new Promise((resolve) => server.close(resolve))
  const idleCheck = setInterval(() => server.closeIdleConnections(), IDLE_CHECK_MS)
  const patience = setTimeout(() => server.closeAllConnections(), DRAIN_MS)
  await closed
  clearInterval(idleCheck)
  clearTimeout(patience)
}

/** The server is bound to a port and an address, not to the path of a socket. */
function addressOf(server: Server): AddressInfo {
  return server.address() as AddressInfo
}

function urlOf({ address, family, port }: AddressInfo): string {
  if (address === '0.0.0.0' || address === '::') return `http://localhost:${port}`
  return family === 'IPv6' ? `http://[${address}]:${port}` : `http://${address}:${port}`
}

/** Answers every request with an error, and closes the connection. */
function rejectWith(error: NthError): Handler {
  return (_, response, headers) => {
    response.setHeader('connection', 'close')
    sendError(withHeaders(response, headers), 503, error)
  }
}
