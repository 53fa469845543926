import { LRUCache } from 'lru-cache'
import { NthError } from '../../core/errors.ts'

/** Loopback names of this machine. */
export const LOOPBACK_NAMES: readonly string[] = ['localhost', '127.0.0.1', '[::1]']

/** Maximum cached hosts: clients choose them, and Node accepts headers of 16 kB. */
const MAX_CACHED = 256

/** Which pages may call from a browser. */
export interface Access {
  /** Origins whose pages may call; `*` is any. */
  allowedOrigins: readonly string[]
  /** Whether the server is reachable from this machine only; then pages of this machine may call, too. */
  onLoopback: boolean
}

/** Why a request is rejected for its Host header, and the HTTP status. */
export interface HostError {
  status: number
  error: NthError
}

/**
 * Creates the check of the Host header: `undefined` if the name is allowed. With DNS rebinding, any page can point its
 * own name at this machine, and then call without CORS, as if it were the server's own page. So a server on loopback
 * accepts this machine's names only, and those of the allowed origins.
 */
export function createHostCheck({
  allowedOrigins,
  onLoopback,
}: Access): (host: string) => HostError | undefined {
  const isAnyAllowed = !onLoopback || allowedOrigins.includes('*')
  const origins = isAnyAllowed ? [] : allowedOrigins
  const names = new Set([...LOOPBACK_NAMES, ...origins.map((origin) => new URL(origin).hostname)])

  function errorOf(host: string): HostError | undefined {
    const hostname = hostnameOf(host)
    // Yoga creates a URL from it, and returns a stack trace if that fails.
    if (hostname === undefined) {
      return { status: 400, error: new NthError('BAD_REQUEST', 'The Host header is not a valid host.') }
    }
    if (isAnyAllowed || names.has(hostname)) return undefined
    const message = `The host ${hostname} is not allowed. To allow it, add its origin to NTH_ALLOWED_ORIGINS.`
    return { status: 403, error: new NthError('FORBIDDEN', message) }
  }

  const results = new LRUCache<string, { error: HostError | undefined }>({
    max: MAX_CACHED,
    memoMethod: (host) => ({ error: errorOf(host) }),
  })
  return (host) => results.memo(host).error
}

/** Whether a server that listens on a host is reachable from this machine only. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host)
}

function hostnameOf(host: string): string | undefined {
  // Anything besides a name and a port would be parsed as other parts of the URL.
  if (/[\s/\\?#@]/.test(host)) return undefined
  const url = `http://${host}`
  return URL.canParse(url) ? new URL(url).hostname : undefined
}
