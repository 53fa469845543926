import type { CORSOptions } from 'graphql-yoga'

const LOOPBACK_HOSTS = new Set(['localhost', '127.0.0.1', '[::1]'])

/** For how long a browser may remember that it was allowed to call, in seconds. */
const MAX_AGE_S = 7200

/** Which pages may call: those of the allowed origins and, on a server that only this machine reaches, of this machine. */
export function isAllowedOrigin(origin: string, allowed: readonly string[], onLoopback: boolean): boolean {
  return allowed.includes('*') || allowed.includes(origin) || (onLoopback && isLoopbackOrigin(origin))
}

/** The CORS answer for each request: without credentials, and for all other origins none at all. */
export function corsOptions(allowed: readonly string[], onLoopback: boolean) {
  return (request: Request): CORSOptions => {
    const origin = request.headers.get('origin')
    if (origin === null || !isAllowedOrigin(origin, allowed, onLoopback)) return false
    return {
      origin,
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
