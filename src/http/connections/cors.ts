import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Access, LOOPBACK_NAMES } from './hosts.ts'

/** How long a browser may cache that it was allowed to call, in seconds. */
const MAX_AGE_S = '7200'

/** Maximum number of rejected origins that are reported. */
const MAX_REPORTED = 20

/** Names and values of headers, alternating. */
export type HeaderList = readonly string[]

/**
 * Creates a function that returns the CORS headers of a response: without credentials, and without access for other
 * origins. They are on every response of the server, so that its errors can be read as well.
 */
export function createCors(
  access: Access,
  /** Called once for each origin that was rejected. */
  onRejected: (origin: string) => void,
): (request: IncomingMessage) => HeaderList {
  const reported = new Set<string>()

  function report(origin: string): void {
    if (reported.has(origin) || reported.size === MAX_REPORTED) return
    reported.add(origin)
    onRejected(origin)
  }

  return ({ method, headers: { origin, host, 'access-control-request-headers': requested = '' } }) => {
    if (!origin) return VARY
    if (!isAllowed(origin, access)) {
      // Clients choose `origin`, so it may be malformed. The server's own pages are not rejected.
      const originHost = hostOf(origin)
      if (originHost !== undefined && originHost !== host) report(origin)
      return VARY
    }
    const allowed = [...VARY, 'access-control-allow-origin', origin]
    if (method !== 'OPTIONS') return allowed
    const methods = ['access-control-allow-methods', 'GET, POST', 'access-control-max-age', MAX_AGE_S]
    return [...allowed, ...methods, 'access-control-allow-headers', requested]
  }
}

const VARY: HeaderList = ['vary', 'Origin']

/** Sets headers for code that doesn't get them as a list. */
export function withHeaders(response: ServerResponse, headers: HeaderList): ServerResponse {
  for (let index = 0; index + 1 < headers.length; index += 2) {
    response.setHeader(String(headers[index]), String(headers[index + 1]))
  }
  return response
}

/** The host and port of an origin; undefined: it isn't one. */
function hostOf(origin: string): string | undefined {
  if (!URL.canParse(origin)) return undefined
  const url = new URL(origin)
  return url.origin === origin ? url.host : undefined
}

function isAllowed(origin: string, { allowedOrigins, onLoopback }: Access): boolean {
  return (
    allowedOrigins.includes('*') ||
    allowedOrigins.includes(origin) ||
    (onLoopback && isLoopbackOrigin(origin))
  )
}

function isLoopbackOrigin(origin: string): boolean {
  if (!URL.canParse(origin)) return false
  const { protocol, hostname } = new URL(origin)
  return protocol === 'http:' && LOOPBACK_NAMES.includes(hostname)
}
