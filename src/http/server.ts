import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { NthError, unavailable } from '../core/errors.ts'
import { type Access, isAllowedHost, isLoopback, setCors } from './cors.ts'
import { graphiqlPage } from './graphiql.ts'
import { type Page, readPages, sendPage } from './pages.ts'
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

export interface ListenOptions {
  host: string
  port: number
  /** Origins whose pages may call, beside this machine's own on a loopback server. */
  allowedOrigins: readonly string[]
}

/** @throws the system's error if the address can't be had, such as EADDRINUSE */
export async function listen({ host, port, allowedOrigins }: ListenOptions): Promise<HttpServer> {
  let handle = refuse(unavailable('Nth is starting; try again in a moment.'))
  let access: Access = { allowedOrigins, onLoopback: false }
  const server = createServer((request, response) => {
    setCors(request, response, access)
    return request.method === 'OPTIONS' ? response.writeHead(204).end() : handle(request, response)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  // What it is bound to: a port and an address, not the path of a socket.
  const address = server.address() as AddressInfo
  access = { allowedOrigins, onLoopback: isLoopback(address.address) }

  return {
    url: urlOf(address),

    async serve(options) {
      const route = router(await readPages(), access, createApi(options))
      handle = async (request, response) => {
        try {
          await route(request, response)
        } catch (error) {
          options.onFault(error)
          response.destroy()
        }
      }
    },

    async close() {
      handle = refuse(unavailable('Nth is shutting down; try again in a moment.'))
      await drain(server)
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

function urlOf({ address, family, port }: AddressInfo): string {
  if (address === '0.0.0.0' || address === '::') return `http://localhost:${port}`
  return family === 'IPv6' ? `http://[${address}]:${port}` : `http://${address}:${port}`
}

type Handler = (request: IncomingMessage, response: ServerResponse) => unknown

function router(pages: Map<string, Page>, access: Access, api: Handler): Handler {
  return async (request, response) => {
    const path = pathOf(request)
    const isGet = request.method === 'GET' || request.method === 'HEAD'
    if (path === '/graphql' || path === '/graphql/') {
      if (isGet && request.headers.accept?.includes('text/html')) {
        return sendPage(request, response, await graphiqlPage())
      }
      const { host = 'localhost' } = request.headers
      const hostname = hostnameOf(host)
      // Yoga makes a URL of it, and answers with a stack trace where that fails.
      if (hostname === undefined) {
        return sendError(response, 400, new NthError('BAD_REQUEST', 'The Host header is not a host.'))
      }
      if (!isAllowedHost(hostname, access)) {
        const message = `This server does not go by the name ${hostname}. Allow its pages with NTH_ALLOWED_ORIGINS.`
        return sendError(response, 403, new NthError('FORBIDDEN', message))
      }
      return api(request, response)
    }
    const page = pages.get(path)
    if (page && isGet) return sendPage(request, response, page)
    if (page) {
      response.setHeader('allow', 'GET, HEAD')
      return sendError(response, 405, new NthError('BAD_REQUEST', `${path} can only be read.`))
    }
    sendError(
      response,
      404,
      new NthError('BAD_REQUEST', 'There is nothing here. The API is at /graphql, the shop at /.'),
    )
  }
}

/** Answers everything with an error, and asks the caller to come back on another connection. */
function refuse(error: NthError): Handler {
  return (_, response) => {
    response.setHeader('connection', 'close')
    sendError(response, 503, error)
  }
}

function pathOf({ url = '/' }: IncomingMessage): string {
  // A proxy may send the whole address.
  if (!url.startsWith('/')) return URL.canParse(url) ? new URL(url).pathname : url
  const end = url.indexOf('?')
  return end === -1 ? url : url.slice(0, end)
}

function hostnameOf(host: string): string | undefined {
  try {
    return new URL(`http://${host}`).hostname
  } catch {
    return undefined
  }
}

function sendError(
  response: ServerResponse,
  status: number,
  { message, extensions, details }: NthError,
): void {
  if (details.retryAfterMs) response.setHeader('retry-after', Math.ceil(details.retryAfterMs / 1000))
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' })
  response.end(JSON.stringify({ errors: [{ message, extensions }] }))
}
