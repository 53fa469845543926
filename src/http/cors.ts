import type { CORSOptions } from 'graphql-yoga'

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

export function isAllowedOrigin(origin: string, { allowedOrigins, onLoopback }: Access): boolean {
  return (
    allowedOrigins.includes('*') ||
    allowedOrigins.includes(origin) ||
    (onLoopback && isLoopbackOrigin(origin))
  )
}

/**
 * Whether a request's Host header is one that the server goes by. A page of anywhere can have its own name
 * lead to this machine (DNS rebinding) and then call without asking, as if it were the server's own page. So
 * a server on loopback answers to this machine's names, and to those of the origins that may call.
 */
export function isAllowedHost(host: string, { allowedOrigins, onLoopback }: Access): boolean {
  if (!onLoopback || allowedOrigins.includes('*')) return true
  const { hostname } = new URL(`http://${host}`)
  return (
    LOOPBACK_HOSTS.has(hostname) || allowedOrigins.some((origin) => new URL(origin).hostname === hostname)
  )
}

/** The CORS answer for each request: without credentials, and for other origins none at all. */
export function corsOptions(access: Access) {
  return (request: Request): CORSOptions => {
    const origin = request.headers.get('origin')
    if (origin === null || !isAllowedOrigin(origin, access)) return false
    return {
      // Twice, because for a list of one Yoga leaves out `Vary: Origin`.
      origin: [origin, origin],
      credentials: false,
      methods: ['GET', 'POST', 'OPTIONS'],
      maxAge: MAX_AGE_S,
    }
  }
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
