import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getHeapStatistics } from 'node:v8'
import { isAllowed } from '../core/access/caller.ts'
import { createLimitedClientOf } from './access/addresses.ts'
import { callerWithoutCredentials, createAuthentication } from './access/authentication.ts'
import { createConnectionLimit } from './access/connectionLimit.ts'
import { takeCredential } from './access/credentials.ts'
import { isLoopback, Origins } from './access/origins.ts'
import type { AccessSettings } from './access/settings.ts'
import { createTokens } from './access/tokens.ts'
import { createBodyReader } from './connections/body.ts'
import { openConnections } from './connections/connections.ts'
import { HttpError, sendError, serviceUnavailable, withHeaders } from './connections/httpError.ts'
import { createGraphqlHandler, type Handler } from './graphql/graphqlHandler.ts'
import { type ApiOptions, createApi } from './graphql/yoga.ts'
import { createHealth, NOT_READY } from './health.ts'
import { openLiveQueries } from './live/liveQueries.ts'
import { createMetricsPage, type ReadMetrics } from './metricsPage.ts'
import { readPages } from './pages/pages.ts'
import { createRouter } from './routes.ts'

const IDLE_CHECK_MS = 20

/** Longer than proxies keep idle connections: one that the server closes first fails the request being sent on it. */
const KEEP_ALIVE_MS = 75_000

/** Addresses of subscriptions may have 16 kB. */
const MAX_HEADER_BYTES = 32_768

/** Shares of the heap for requests in flight, for what streams keep, and for unread responses. */
const REQUESTS_SHARE = 1 / 2
const STREAMS_SHARE = 1 / 4
const UNREAD_SHARE = 1 / 8

export interface ListenOptions extends Pick<ApiOptions, 'nth' | 'notices'> {
  /** An IP address: whether it is that of loopback decides who may call. */
  host: string
  port: number
  /** Origins whose pages may call, besides this machine's own on a loopback server. */
  allowedOrigins: readonly string[]
  /** Who may call. Default: on a loopback server anyone, on another nobody. */
  access?: AccessSettings
  /** Maximum connections from one address; default: unlimited. */
  maxConnectionsPerAddress?: number
  /** Maximum streams of a caller from one address; default: unlimited. */
  maxStreams?: number
  /** Pause after which a stream gets a heartbeat, in milliseconds. */
  heartbeatMs?: number
  /** How long a request may take to arrive; then it is answered with 408, and its connection closed. */
  arrivalMs?: number
  /** How long a body may take before it must have arrived at a minimum rate, in milliseconds. */
  graceMs?: number
  /** How long the body of a caller who may do nothing may take to arrive, in milliseconds. */
  unauthorizedMs?: number
  /** How long a client may read nothing of its response; then its connection is closed. */
  stallMs?: number
  /** How long requests in flight may take when the server closes, in milliseconds. */
  drainMs?: number
  /** Heap limit of this process, in bytes: other limits are derived from it. */
  heapBytes?: number
  /** Of Nth, for `/health`. */
  version?: string
  /** Returns what `/metrics` shows. */
  readMetrics?: ReadMetrics
}

/**
 * Opens the server. It listens last, when it can answer: until then, the system refuses connections, and proxies take
 * another process at once. Throws the system's error if it can't listen.
 */
export async function listen({
  host,
  port,
  allowedOrigins,
  access = {},
  maxConnectionsPerAddress = Number.POSITIVE_INFINITY,
  maxStreams = Number.POSITIVE_INFINITY,
  // Proxies close connections after 30 to 60 s without data.
  heartbeatMs = 12_000,
  // Long enough for 1 MB over a slow connection.
  arrivalMs = 60_000,
  graceMs = 10_000,
  unauthorizedMs = 5_000,
  stallMs = 30_000,
  drainMs = 10_000,
  heapBytes = getHeapStatistics().heap_size_limit,
  version = '',
  readMetrics = async () => '',
  nth,
  notices,
}: ListenOptions) {
  const pages = await readPages(nth)
  const server = createServer({
    maxHeaderSize: MAX_HEADER_BYTES,
    keepAliveTimeout: KEEP_ALIVE_MS,
    requestTimeout: arrivalMs,
    headersTimeout: arrivalMs / 2,
    connectionsCheckingInterval: arrivalMs / 10,
  })
  // Otherwise Node closes a connection whose client has ended its side, before it is answered. Not in its types.
  Object.assign(server, { httpAllowHalfOpen: true })
  const onLoopback = isLoopback(host)
  let isDraining = false
  const handleHealth = createHealth({
    version,
    notReady: () => (isDraining ? NOT_READY.draining : isFull() ? NOT_READY.full : undefined),
    checkDatabase: nth.checkDatabase,
  })
  const { trustedProxies = [], publicOrigin, tokens: issuer } = access
  const origins = new Origins({ allowedOrigins, publicOrigin, onLoopback }, notices)
  const limitedClientOf = createLimitedClientOf(trustedProxies)
  const { reserve, release, isFull, closeUnused, endWithAnswers } = openConnections(server, {
    maxBytes: heapBytes * REQUESTS_SHARE,
    maxUnreadBytes: heapBytes * UNREAD_SHARE,
    stallMs,
    refuse: createConnectionLimit(maxConnectionsPerAddress, trustedProxies),
    clientOf: limitedClientOf,
    handle(request, response) {
      if (handleHealth(request, response)) return
      const credential = takeCredential(request)
      const headers = origins.corsHeaders(request, credential !== undefined)
      if (request.method === 'OPTIONS') return response.writeHead(204, [...headers]).end()
      if (credential instanceof HttpError) return sendError(withHeaders(response, headers), credential)
      return handle(request, response, headers, credential)
    },
    notices,
  })
  const readBody = createBodyReader(server, { reserve, graceMs, unauthorizedMs })
  const authenticate = createAuthentication({
    settings: access,
    apiKeys: nth.apiKeys,
    tokens: issuer && createTokens(issuer),
    onLoopback,
    origins,
    limitedClientOf,
  })
  const maxStreamBytes = heapBytes * STREAMS_SHARE
  const liveQueries = openLiveQueries(nth, { maxStreams, maxBytes: maxStreamBytes, heartbeatMs, notices })
  const api = createApi({ nth, notices, liveQueries })
  const graphql = createGraphqlHandler({ api, readBody, reserve, release, authenticate })
  const isReadable = isAllowed(callerWithoutCredentials(access, onLoopback), 'READ')
  const metrics = createMetricsPage(authenticate, readMetrics)
  let handle = createRouter({ pages, origins, graphql, metrics, isReadable })

  function drain(): void {
    isDraining = true
    endWithAnswers()
  }

  // Last, as a worker may receive connections before it is notified that it listens.
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })

  return {
    /** Where it can be reached: `http://127.0.0.1:4000`. It is bound to a port, not to the path of a socket. */
    url: urlOf(server.address() as AddressInfo),

    /** Its open subscriptions. */
    subscribers: () => liveQueries.size,

    /** Reports that it isn't ready, but still answers requests: until proxies and clients have noticed. */
    drain,

    /** Rejects new requests, and waits until those in flight are answered. May be called again. */
    async close(): Promise<void> {
      drain()
      handle = rejectWith('Nth is shutting down; try again in a moment.')
      liveQueries.close()
      const closed = new Promise((resolve) => server.close(resolve))
      const idleCheck = setInterval(() => {
        server.closeIdleConnections()
        closeUnused()
      }, IDLE_CHECK_MS)
      const patience = setTimeout(() => server.closeAllConnections(), drainMs)
      await closed
      clearInterval(idleCheck)
      clearTimeout(patience)
    },
  }
}

function urlOf({ address, family, port }: AddressInfo): string {
  if (address === '0.0.0.0' || address === '::') return `http://localhost:${port}`
  return family === 'IPv6' ? `http://[${address}]:${port}` : `http://${address}:${port}`
}

/** Answers every request with an error, and closes the connection. */
function rejectWith(message: string): Handler {
  const error = serviceUnavailable(message)
  return (_, response, headers) => {
    response.setHeader('connection', 'close')
    sendError(withHeaders(response, headers), error)
  }
}
