import type { IncomingMessage, ServerResponse } from 'node:http'
import { LRUCache } from 'lru-cache'
import type { Notices } from '../../core/notices.ts'
import { HttpError } from './httpError.ts'

/** Names and values of headers, alternating. */
export type HeaderList = readonly string[]

const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]']

/** Maximum cached hosts: clients choose them, and Node accepts headers of 16 kB. */
const MAX_CACHED = 256

/** How long a browser may cache that it was allowed to call, in seconds. */
const MAX_AGE_S = '7200'

/** Maximum number of rejected origins that are reported. */
const MAX_REPORTED = 20

const VARY: HeaderList = ['vary', 'Origin']

const HOST = 'host'
const AUTHORIZATION = 'authorization'

/**
 * Why a request is malformed: it has two headers Host (RFC 9112, 3.2) or Authorization. Of those Node keeps the first
 * one, and a proxy may have checked the last.
 */
export function repeatedHeader({ rawHeaders }: IncomingMessage): HttpError | undefined {
  let hosts = 0
  let authorizations = 0
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? ''
    // Every request pays for this: with the look at the length 0.15 µs for twelve headers, without it 0.6 (Node 20).
    if (name.length !== HOST.length && name.length !== AUTHORIZATION.length) continue
    const lowerCase = name.toLowerCase()
    if (lowerCase === HOST) hosts += 1
    else if (lowerCase === AUTHORIZATION) authorizations += 1
  }
  if (hosts <= 1 && authorizations <= 1) return undefined
  const name = hosts > 1 ? 'Host' : 'Authorization'
  return new HttpError(400, 'BAD_REQUEST', `The header ${name} was sent more than once.`)
}

/**
 * Creates the check of the Host header: `undefined` if the name is allowed. With DNS rebinding, any page can point its
 * own name at this machine, and then call without CORS, as if it were the server's own page. So a server on loopback
 * accepts this machine's names only, those of the allowed origins, and that of its own pages.
 *
 * @param isChecked whether it rejects other names at all
 */
export function createHostCheck(
  allowedOrigins: readonly string[],
  publicOrigin: string | undefined,
  isChecked: boolean,
) {
  const origins = [...allowedOrigins, publicOrigin ?? '']
  const names = new Set([...LOOPBACK_NAMES, ...origins.map((origin) => parsed(origin)?.hostname)])
  const results = new LRUCache<string, { error?: HttpError }>({
    max: MAX_CACHED,
    memoMethod(host) {
      // Anything besides a name and a port would be parsed as other parts of the URL.
      const hostname = /[\s/\\?#@]/.test(host) ? undefined : parsed(`http://${host}`)?.hostname
      // Yoga creates a URL from it, and returns a stack trace if that fails.
      if (hostname === undefined)
        return { error: new HttpError(400, 'BAD_REQUEST', 'The Host header is not a valid host.') }
      if (!isChecked || names.has(hostname)) return {}
      const message = `The host ${hostname} is not allowed. To allow it, add its origin to NTH_ALLOWED_ORIGINS.`
      return { error: new HttpError(403, 'FORBIDDEN', message) }
    },
  })
  return (host: string) => results.memo(host).error
}

/**
 * Creates the check of origins whose pages may call without credentials.
 *
 * @param allowedOrigins origins whose pages may call; `*` is any
 * @param onLoopback whether the server is reachable from this machine only; then pages of this machine may call, too
 */
export function createOriginCheck(allowedOrigins: readonly string[], onLoopback: boolean) {
  return (origin: string): boolean => {
    if (allowedOrigins.includes('*') || allowedOrigins.includes(origin)) return true
    const url = onLoopback ? parsed(origin) : undefined
    return url?.protocol === 'http:' && LOOPBACK_NAMES.includes(url.hostname)
  }
}

/**
 * Creates a function that returns the CORS headers of a response: without cookies, and without access for other origins
 * to requests without an API key. They are on every response of the server, so that its errors can be read as well.
 *
 * @param isAllowed whether pages of an origin may call without credentials
 * @param notices get a warning for each origin that was rejected
 */
export function createCors(isAllowed: (origin: string) => boolean, notices: Notices) {
  const reported = new Set<string>()

  return ({ method, headers }: IncomingMessage, hasCredential = false): HeaderList => {
    const { origin, host, 'access-control-request-headers': requested = '' } = headers
    if (!origin) return VARY
    // Whether a page may use a key is decided by the key, which a preflight doesn't have; the page can read a refusal.
    const isByKey = hasCredential || (method === 'OPTIONS' && namesIn(requested).includes('authorization'))
    if (!isByKey && !isAllowed(origin)) {
      const url = parsed(origin)
      // The server's own pages are not rejected, and what is no origin isn't reported.
      const isForeign = url?.origin === origin && url.host !== host
      if (isForeign && !reported.has(origin) && reported.size < MAX_REPORTED) {
        reported.add(origin)
        notices.warn(`The origin ${origin} is not allowed. To allow it, add it to NTH_ALLOWED_ORIGINS.`)
      }
      return VARY
    }
    const allowed = [...VARY, 'access-control-allow-origin', origin]
    if (method !== 'OPTIONS') return allowed
    const methods = ['access-control-allow-methods', 'GET, POST', 'access-control-max-age', MAX_AGE_S]
    return [...allowed, ...methods, 'access-control-allow-headers', requested]
  }
}

/** The names in a list of headers, in lower case. */
function namesIn(list: string): string[] {
  return list.split(',').map((name) => name.trim().toLowerCase())
}

/** Sets headers for code that doesn't get them as a list. */
export function withHeaders(response: ServerResponse, headers: HeaderList): ServerResponse {
  for (let index = 0; index + 1 < headers.length; index += 2) {
    response.setHeader(String(headers[index]), String(headers[index + 1]))
  }
  return response
}

/** Whether a server that listens on a host is reachable from this machine only. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host)
}

function parsed(url: string): URL | undefined {
  return URL.canParse(url) ? new URL(url) : undefined
}
