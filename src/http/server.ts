import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getHeapStatistics } from 'node:v8'
import { type NthError, unavailable } from '../core/errors.ts'
import { isBook } from './books.ts'
import { openConnections } from './connections.ts'
import { openCors } from './cors.ts'
import { createFront, type Handler, HEAP_BYTES_A_CHARACTER, setAll } from './front.ts'
import { type Access, isLoopback, openHosts } from './hosts.ts'
import { readPages } from './pages.ts'
import { refuse, tooBusy } from './refuse.ts'
import { createRouter } from './routes.ts'
import { watchUnread } from './unread.ts'
import { type ApiOptions, createApi } from './yoga.ts'

/** A server that holds its address from the start, and answers once it is given something to serve. */
export interface HttpServer {
  /** Where it can be reached: `http://127.0.0.1:4000`. */
  url: string
  serve(api: ApiOptions): Promise<void>
  /** Takes no more requests, and waits until those under way are answered. May be called again. */
  close(): Promise<void>
}

/** How long requests under way may take when the server closes, in milliseconds. */
const DRAIN_MS = 10_000
const IDLE_CHECK_MS = 20

/**
 * How long an idle connection is kept, in milliseconds: longer than proxies keep theirs, as one that the server
 * closes first fails the request that is on its way on it.
 */
const KEEP_ALIVE_MS = 75_000

/** How long a request may take to arrive, in milliseconds: 1 MB over a poor connection. */
const ARRIVAL_MS = 60_000

/** For how long a caller may take nothing of its answer, in milliseconds. */
const STALL_MS = 30_000

/** What parts of the heap requests under way may take, and answers that wait to be taken. */
const REQUESTS_SHARE = 1 / 2
const UNREAD_SHARE = 1 / 8

export interface ListenOptions {
  host: string
  port: number
  /** Origins whose pages may call, beside this machine's own on a loopback server. */
  allowedOrigins: readonly string[]
  /** How long a request may take to arrive; then it is answered with 408, and its connection ended. */
  arrivalMs?: number
  /** For how long nothing of an answer may be taken; then its connection is ended. */
  stallMs?: number
  /** The heap that this process may have, in bytes: bounds follow from it. */
  heapBytes?: number
  /** Told what an operator should know, as sentences. */
  warn?: (message: string) => void
}

/** @throws the system's error if the address can't be had, such as EADDRINUSE */
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
  // Else Node ends a connection whose caller says that it has sent all, before it is answered. Not in its types.
  Object.assign(server, { httpAllowHalfOpen: true })
  const access: Access = {
    allowedOrigins,
    get onLoopback() {
      return isLoopback(addressOf(server).address)
    },
  }
  let handle = refusing(unavailable('Nth is starting; try again in a moment.'))
  let onFault: ApiOptions['onFault'] = () => undefined
  const corsHeaders = openCors(access, (origin) =>
    warn(`A page of ${origin} was refused. To let it call, add it to NTH_ALLOWED_ORIGINS.`),
  )
  const connections = openConnections(server, {
    maxBytes: heapBytes * REQUESTS_SHARE,
    begin(request, response, hasRoom) {
      const headers = corsHeaders(request)
      if (request.method === 'OPTIONS') return response.writeHead(204, [...headers]).end()
      if (hasRoom) return handle(request, response, headers)
      setAll(response, headers)
      return refuse(response, 503, tooBusy())
    },
    onFault: (error) => onFault(error),
  })
  // Last, as a worker may be given connections before it hears that it listens.
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  const unwatch = watchUnread({ connections, stallMs, maxBytes: heapBytes * UNREAD_SHARE })

  return {
    url: urlOf(addressOf(server)),

    async serve(options) {
      const hasRoom = (request: IncomingMessage, { length }: string) =>
        connections.take(request, length * HEAP_BYTES_A_CHARACTER)
      const front = createFront(createApi({ ...options, hasRoom }), connections)
      const pages = await readPages({ isBook: (title) => isBook(title, options.nth) })
      onFault = options.onFault
      handle = createRouter({ pages, hostRefusal: openHosts(access), front })
    },

    async close() {
      handle = refusing(unavailable('Nth is shutting down; try again in a moment.'))
      await drain(server)
      unwatch()
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

/** What a server is bound to: a port and an address, not the path of a socket. */
function addressOf(server: Server): AddressInfo {
  return server.address() as AddressInfo
}

function urlOf({ address, family, port }: AddressInfo): string {
  if (address === '0.0.0.0' || address === '::') return `http://localhost:${port}`
  return family === 'IPv6' ? `http://[${address}]:${port}` : `http://${address}:${port}`
}

/** Answers everything with an error, and asks the caller to come back on another connection. */
function refusing(error: NthError): Handler {
  return (_, response, headers) => {
    setAll(response, [...headers, 'connection', 'close'])
    refuse(response, 503, error)
  }
}
