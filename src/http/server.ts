import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getHeapStatistics } from 'node:v8'
import { errorOf } from '../rules/errors.ts'
import { ALL_NAMES, isAllowed, refusal } from '../rules/rights.ts'
import { listenOn } from './address.ts'
import {
  type Access,
  type AccessSettings,
  type Credential,
  createAuthentication,
  takeCredential,
} from './authentication.ts'
import { BADGE_PATH, createBadges } from './badges.ts'
import { createBodyReader } from './body.ts'
import { Clients } from './clients.ts'
import { openConnections } from './connections.ts'
import {
  type HeaderList,
  HttpError,
  httpErrorFor,
  isWrite,
  NOT_CACHED,
  rejectWrite,
  sendError,
  sendText,
  serviceUnavailable,
  withHeaders,
} from './errors.ts'
import { createGraphqlHandler } from './graphqlHandler.ts'
import { openLiveQueries } from './liveQueries.ts'
import { isLoopback, Origins } from './origins.ts'
import { readPages, sendPage } from './pages.ts'
import { untrusted } from './parameters.ts'
import { RateLimits } from './rateLimits.ts'
import { openSockets } from './sockets.ts'
import { type ApiOptions, createApi } from './yoga.ts'

const IDLE_CHECK_MS = 20

/** Longer than proxies keep idle connections: one that the server closes first fails the request being sent on it. */
const KEEP_ALIVE_MS = 75_000

/** Addresses of subscriptions may have 16 kB. */
export const MAX_HEADER_BYTES = 32_768

/** Shares of the heap for requests in flight, for what streams keep, and for unread responses. */
export const REQUESTS_SHARE = 1 / 2
export const STREAMS_SHARE = 1 / 4
export const UNREAD_SHARE = 1 / 8

/** Limits, unless others are set. */
export const LIMITS = {
  /** Pause after which a stream gets a heartbeat. Proxies close connections after 30 to 60 s without data. */
  heartbeatMs: 12_000,
  /**
   * How long a request may take to arrive; then it is answered with 408, and its connection closed. Long enough for 1 MB
   * over a slow connection.
   */
  arrivalMs: 60_000,
  /** How long a body may take before it must have arrived at a minimum rate. */
  graceMs: 10_000,
  /** How long the body of a caller who may do nothing may take to arrive. */
  unauthorizedMs: 5_000,
  /** How long the client of a WebSocket may take to say who it is. */
  initMs: 5_000,
  /** How long a client may read nothing of its response; then its connection is closed. */
  stallMs: 30_000,
  /** How long requests in flight may take when the server closes. */
  drainMs: 10_000,
  /** Heap limit of this process: other limits are derived from it. */
  heapBytes: getHeapStatistics().heap_size_limit,
}

/** Returns the metrics of all processes, in the text format of Prometheus. */
export type ReadMetrics = () => Promise<string>

export interface ListenOptions
  extends Pick<ApiOptions, 'nth' | 'gate' | 'notices' | 'trustedOnly'>,
    Partial<typeof LIMITS> {
  /** An IP address. Whether it is a loopback address decides who may call. */
  host: string
  port: number
  /** Origins whose pages may call, besides this machine's own on a loopback server. */
  allowedOrigins: readonly string[]
  access: AccessSettings
  maxConnectionsPerAddress: number
  /** Maximum streams of a caller from one address. */
  maxStreams: number
  /** Of Nth, for `/health`. */
  version: string
  readMetrics: ReadMetrics
  /** Shared with other processes. Default: limits of this process only. */
  rateLimits?: RateLimits | undefined
}

/** `draining`: it isn't ready, but still answers requests. `closing`: it rejects new requests. */
type State = 'serving' | 'draining' | 'closing'

/** Why a process is not ready for requests, although its database can be used. */
const DRAINING = 'Nth is shutting down.'
const FULL = 'Nth refuses requests: those in flight use all memory that they may.'

/** Paths of the API. The path of a malformed URL is undefined. */
const API_PATHS: readonly (string | undefined)[] = ['/graphql', '/graphql/']

const CLOSING = 'Nth is shutting down; try again in a moment.'
const NOT_FOUND = 'Not found. The API is at /graphql, the demos at /.'

/** A proxy may add a query, and send an absolute URL. */
const HEALTH_PATH = /^(?:https?:\/\/[^/?#]+)?\/(health|ready)(?:\?|$)/

/**
 * Opens the server. It listens last, when it can answer: until then, the system refuses connections, and proxies take
 * another process at once. Throws an error for the operator if it can't listen.
 */
export async function listen(options: ListenOptions) {
  const { host, port, allowedOrigins, access, version, nth, gate, notices, trustedOnly } = options
  const { maxConnectionsPerAddress, maxStreams, readMetrics, rateLimits = new RateLimits() } = options
  const limits = { ...LIMITS, ...options }
  const { arrivalMs, stallMs, graceMs, unauthorizedMs, initMs, heartbeatMs, drainMs, heapBytes } = limits
  const pages = await readPages()
  const server = createServer({
    maxHeaderSize: MAX_HEADER_BYTES,
    keepAliveTimeout: KEEP_ALIVE_MS,
    requestTimeout: arrivalMs,
    headersTimeout: arrivalMs / 2,
    connectionsCheckingInterval: arrivalMs / 10,
    // Of two headers Host or Authorization, Node would keep the first one, and a proxy may have checked the last. Joined,
    // they are neither a host nor credentials (RFC 9112, 3.2).
    joinDuplicateHeaders: true,
  })
  // Otherwise Node closes a connection whose client has ended its side, before it is answered. Not in its types.
  Object.assign(server, { httpAllowHalfOpen: true })
  let state: State = 'serving'
  const onLoopback = isLoopback(host)
  const { trustedProxies = [], publicOrigin } = access
  const origins = new Origins({ allowedOrigins, publicOrigin, onLoopback }, notices)
  const clients = new Clients(trustedProxies, maxConnectionsPerAddress)
  const { reserve, release, charge, isFull, closeUnused, endWithAnswers } = openConnections(server, {
    maxBytes: heapBytes * REQUESTS_SHARE,
    maxUnreadBytes: heapBytes * UNREAD_SHARE,
    stallMs,
    clients,
    handle,
    notices,
  })
  const readBody = createBodyReader(server, { reserve, graceMs, unauthorizedMs })
  const authenticate = createAuthentication({ access, nth, onLoopback, origins, clients, rateLimits })
  const shared = { authenticate, clients, gate, notices }
  const maxBytes = heapBytes * STREAMS_SHARE
  const liveQueries = openLiveQueries(nth, { ...shared, maxStreams, maxBytes, heartbeatMs })
  const api = createApi({ nth, gate, notices, liveQueries, trustedOnly })
  const { answerCall, subscribe } = createGraphqlHandler({ ...shared, api, readBody, reserve, release })
  const socketOptions = { ...shared, subscribe, liveQueries, charge, initMs }
  const sockets = openSockets(server, refuseUpgrade, socketOptions)
  const answerBadge = createBadges(nth, authenticateReader, notices)

  /** Authenticates as `authenticate` does, but refuses keys that are bound to documents: badges and metrics have none. */
  async function authenticateReader(request: IncomingMessage, credential?: Credential): Promise<Access> {
    const access = await authenticate(request, credential)
    if (access.caller.key?.documents) throw untrusted()
    return access
  }

  /** Why a WebSocket may not be opened; undefined: it may. */
  function refuseUpgrade(request: IncomingMessage): HttpError | undefined {
    if (state === 'closing') return serviceUnavailable(CLOSING)
    if (!API_PATHS.includes(pathOf(request))) return new HttpError(404, 'BAD_REQUEST', NOT_FOUND)
    return origins.hostFault(request.headers.host ?? 'localhost')
  }

  function handle(request: IncomingMessage, response: ServerResponse): unknown {
    const health = HEALTH_PATH.exec(request.url ?? '')?.[1]
    if (health) return answerHealth(health, request, response)
    const credential = takeCredential(request)
    const headers = origins.corsHeaders(request, credential !== undefined)
    if (request.method === 'OPTIONS') return response.writeHead(204, [...headers]).end()
    if (credential instanceof HttpError) return sendError(withHeaders(response, headers), credential)
    if (state !== 'closing') return route(request, response, headers, credential)
    response.setHeader('connection', 'close')
    const error = serviceUnavailable(CLOSING)
    return sendError(withHeaders(response, headers), error)
  }

  /** Routes requests to the API, to the metrics, or to a page, such as GraphiQL at the path of the API. */
  function route(
    request: IncomingMessage,
    response: ServerResponse,
    headers: HeaderList,
    credential: Credential | undefined,
  ): unknown {
    const path = pathOf(request)
    const hostError = origins.hostFault(request.headers.host ?? 'localhost')
    const isCall = API_PATHS.includes(path) && (request.method === 'POST' || !isPage(request))
    if (isCall && !hostError) return answerCall(request, response, headers, credential)
    withHeaders(response, headers)
    if (path === '/metrics' && !hostError) return answerMetrics(request, response, credential)
    if (path === undefined) return reject(response, 400, 'The URL of the request is malformed.')
    const isBadge = BADGE_PATH.test(path)
    if (hostError && (isCall || isBadge || hostError.status === 400)) return sendError(response, hostError)
    if (isBadge) return answerBadge(request, response, path, credential)
    const page = pages.at(path)
    if (page && isWrite(request)) return rejectWrite(response, path)
    if (page) return sendPage(request, response, page)
    if (isPage(request)) return sendPage(request, response, pages.notFound(path), 404)
    return reject(response, 404, NOT_FOUND)
  }

  /** Answers `/metrics` for callers that may read everything: names of operations and their number are no secret to them. */
  async function answerMetrics(request: IncomingMessage, response: ServerResponse, credential?: Credential) {
    if (isWrite(request)) return rejectWrite(response, '/metrics')
    try {
      const { caller } = await authenticateReader(request, credential)
      if (isAllowed(caller, 'READ', ALL_NAMES)) return await sendMetrics(response, readMetrics)
      throw httpErrorFor(refusal(caller, 'READ'))
    } catch (error) {
      if (error instanceof HttpError) return sendError(response, error)
      throw error
    }
  }

  function ownFault(): string | undefined {
    if (state !== 'serving') return DRAINING
    return isFull() ? FULL : undefined
  }

  /**
   * Answers `/health` (the process lives) and `/ready` (it can answer requests). Both are for whatever starts, stops and
   * selects processes: without a key, and outside all limits and checks of hosts and origins.
   */
  async function answerHealth(path: string, request: IncomingMessage, response: ServerResponse) {
    response.setHeader(...NOT_CACHED)
    if (isWrite(request)) return rejectWrite(response, `/${path}`)
    if (path === 'health') return sendStatus(response, { status: 'ok' })
    try {
      const isBusy = ownFault() === undefined && (await nth.checkDatabase()).isBusy
      const fault = ownFault()
      if (fault !== undefined) return sendError(response, serviceUnavailable(fault))
      sendStatus(response, { status: 'ready', ...(isBusy && { busy: true }) })
    } catch (error) {
      sendError(response, serviceUnavailable(ownFault() ?? errorOf(error).message))
    }
  }

  function sendStatus(response: ServerResponse, status: object): void {
    sendText(response, 'application/json', `${JSON.stringify({ ...status, version })}\n`)
  }

  function drain(): void {
    state = 'draining'
    endWithAnswers()
  }

  // Last, as a worker may receive connections before it is notified that it listens.
  const address = await listenOn(server, host, port)

  return {
    /** Where it can be reached: `http://127.0.0.1:4000`. */
    url: urlOf(address),

    subscribers: () => liveQueries.size,

    /** Reports that it isn't ready, but still answers requests: until proxies and clients have noticed. */
    drain,

    /** Rejects new requests, and waits until those in flight are answered. May be called again. */
    async close(): Promise<void> {
      drain()
      state = 'closing'
      liveQueries.close()
      sockets.close()
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

/** Whether a browser navigates. */
function isPage(request: IncomingMessage): boolean {
  return !isWrite(request) && (request.headers.accept?.includes('text/html') ?? false)
}

function reject(response: ServerResponse, status: number, message: string): void {
  sendError(response, new HttpError(status, 'BAD_REQUEST', message))
}

/**
 * The path of a request; undefined if its URL is malformed. A proxy may send an absolute URL (`GET http://host/path`).
 * Its path and host go where other requests have them: the host replaces the header Host (RFC 9112, 3.2.2).
 */
function pathOf(request: IncomingMessage): string | undefined {
  const { url = '/' } = request
  if (url.startsWith('/')) {
    const end = url.indexOf('?')
    return end === -1 ? url : url.slice(0, end)
  }
  // `new URL` would also accept `http:name` and `http:///name`.
  if (!/^https?:\/\/[^/]/i.test(url) || !URL.canParse(url)) return undefined
  const { host, pathname, search, username, password } = new URL(url)
  if (username || password) return undefined
  request.url = pathname + search
  request.headers.host = host
  return pathname
}

const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** Opens a server for the metrics alone, without a key. Throws an error for the operator if it can't listen. */
export async function openMetricsServer(host: string, port: number, readMetrics: ReadMetrics) {
  const server = createServer((request, response) => {
    if (request.method === 'GET' && request.url === '/metrics') return void sendMetrics(response, readMetrics)
    sendError(response, new HttpError(404, 'BAD_REQUEST', 'Not found. The metrics are at /metrics.'))
  })
  const address = await listenOn(server, host, port, 'NTH_METRICS_')
  return {
    port: address.port,

    async close(): Promise<void> {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function sendMetrics(response: ServerResponse, readMetrics: ReadMetrics): Promise<void> {
  try {
    sendText(response, METRICS_TYPE, await readMetrics())
  } catch {
    // The primary process is ending.
    sendError(response, serviceUnavailable('The metrics cannot be read at the moment.'))
  }
}
