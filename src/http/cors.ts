import type { IncomingMessage, ServerResponse } from 'node:http'

const LOOPBACK_HOSTS = new Set(['localhost', '127.0.0.1', '[::1]'])

/** For how long a browser may remember that it was allowed to call, in seconds. */
const MAX_AGE_S = 7200

/** Who may call from a browser. */
export interface Access {
  /** Origins whose pages may call; `*` is any. */
  allowedOrigins: readonly string[]
  /** Whether only this machine reaches the server; then its own pages may call, too. */
  onLoopback: boolean
}

/**
 * Tells a browser whether the page that asks may see the answer: without credentials, and other origins are
 * told nothing. On every answer of the server, so that its errors can be read as well.
 */
export function setCors(request: IncomingMessage, response: ServerResponse, access: Access): void {
  const { origin } = request.headers
  response.setHeader('vary', 'Origin')
  if (!origin || !isAllowedOrigin(origin, access)) return
  response.setHeader('access-control-allow-origin', origin)
  if (request.method !== 'OPTIONS') return
  response.setHeader('access-control-allow-methods', 'GET, POST')
  response.setHeader('access-control-allow-headers', request.headers['access-control-request-headers'] ?? '')
  response.setHeader('access-control-max-age', MAX_AGE_S)
}

/**
 * Whether a host name, as the Host header gives it, is one that the server goes by. A page of anywhere can
 * have its own name lead to this machine (DNS rebinding) and then call without asking, as if it were the
 * server's own page. So a server on loopback answers to this machine's names, and to those of the origins
 * that may call.
 */
export function isAllowedHost(hostname: string, { allowedOrigins, onLoopback }: Access): boolean {
  if (!onLoopback || allowedOrigins.includes('*') || LOOPBACK_HOSTS.has(hostname)) return true
  return allowedOrigins.some((origin) => new URL(origin).hostname === hostname)
}

function isAllowedOrigin(origin: string, { allowedOrigins, onLoopback }: Access): boolean {
  return (
    allowedOrigins.includes('*') ||
    allowedOrigins.includes(origin) ||
    (onLoopback && isLoopbackOrigin(origin))
  )
}

function isLoopbackOrigin(origin: string): boolean {
  if (!URL.canParse(origin)) return false
  const { protocol, hostname } = new URL(origin)
  return protocol === 'http:' && LOOPBACK_HOSTS.has(hostname)
}

/** Whether a server that listens at a host can be reached from this machine only. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host)
}
