import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { isAllowedOnAll, refusal } from '../rules/rights.ts'
import type { Authenticate } from './authentication.ts'
import {
  HttpError,
  isWrite,
  rejectWrite,
  sendError,
  sendText,
  serviceUnavailable,
  withHeaders,
} from './errors.ts'
import type { Handler } from './graphqlHandler.ts'
import type { Origins } from './origins.ts'
import { type Pages, sendPage } from './pages.ts'

interface RouterOptions {
  pages: Pages
  origins: Origins
  graphql: Handler
  metrics: Handler
}

/** Routes requests to the API, to the metrics, or to a page, such as GraphiQL at the path of the API. */
export function createRouter({ pages, origins, graphql, metrics }: RouterOptions): Handler {
  return (request, response, headers, credential) => {
    const path = pathOf(request)
    const isGraphql = path === '/graphql' || path === '/graphql/'
    const hostError = origins.hostFault(request.headers.host ?? 'localhost')
    const isCall = isGraphql && (request.method === 'POST' || !isPage(request))
    if (isCall && !hostError) return graphql(request, response, headers, credential)
    if (path === '/metrics' && !hostError) return metrics(request, response, headers, credential)
    withHeaders(response, headers)
    if (path === undefined) return reject(response, 400, 'The URL of the request is malformed.')
    if (hostError && (isCall || hostError.status === 400)) return sendError(response, hostError)
    const page = pages.at(path)
    if (page && isWrite(request)) return rejectWrite(response, path)
    if (page) return sendPage(request, response, page)
    if (isPage(request)) return sendPage(request, response, pages.notFound(path), 404)
    return reject(response, 404, 'Not found. The API is at /graphql, the demos at /.')
  }
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
 * Its parts are moved to where other requests have them: the host of the URL replaces the header (RFC 9112, 3.2.2).
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

/** Returns the metrics of all processes, in the text format of Prometheus. */
export type ReadMetrics = () => Promise<string>

const TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** Answers `/metrics` for callers that may read everything: names of operations and their number are no secret to them. */
export function createMetricsPage(authenticate: Authenticate, readMetrics: ReadMetrics): Handler {
  return async (request, response, headers, credential) => {
    withHeaders(response, headers)
    if (isWrite(request)) return rejectWrite(response, '/metrics')
    try {
      const { caller } = await authenticate(request, credential)
      if (isAllowedOnAll(caller, 'READ')) return await sendMetrics(response, readMetrics)
      const { code, message } = refusal(caller, 'READ')
      throw new HttpError(code === 'UNAUTHENTICATED' ? 401 : 403, code, message)
    } catch (error) {
      if (error instanceof HttpError) return sendError(response, error)
      throw error
    }
  }
}

/** Opens a server for the metrics alone, without a key. Throws the system's error if it can't listen. */
export async function openMetricsServer(host: string, port: number, readMetrics: ReadMetrics) {
  const server = createServer((request, response) => {
    if (request.method === 'GET' && request.url === '/metrics') return void sendMetrics(response, readMetrics)
    sendError(response, new HttpError(404, 'BAD_REQUEST', 'Not found. The metrics are at /metrics.'))
  })
  server.listen(port, host)
  await once(server, 'listening')
  return {
    // It is bound to a port, not to the path of a socket.
    port: (server.address() as AddressInfo).port,

    async close(): Promise<void> {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function sendMetrics(response: ServerResponse, readMetrics: ReadMetrics): Promise<void> {
  try {
    sendText(response, TYPE, await readMetrics())
  } catch {
    // The primary process is ending.
    sendError(response, serviceUnavailable('The metrics cannot be read at the moment.'))
  }
}
