import type { IncomingMessage } from 'node:http'
import type { HeaderList } from '../graphql/front.ts'
import { type Access, LOOPBACK_NAMES } from './hosts.ts'
import { remember } from './remember.ts'

/** How long a browser may cache that it was allowed to call, in seconds. */
const MAX_AGE_S = '7200'

/**
 * Creates a function that returns the CORS headers of a response: without credentials, and without access for other
 * origins. They are on every response of the server, so that its errors can be read as well.
 */
export function openCors(
  access: Access,
  /** Called once for each origin that was refused. */
  onRefused: (origin: string) => void,
): (request: IncomingMessage) => HeaderList {
  const refused = new Set<string>()
  const known = remember(
    (origin): { isAllowed: boolean; headers: HeaderList; ownHost: string | undefined } => {
      const isAllowed = isAllowedOrigin(origin, access)
      const headers = ['vary', 'Origin', ...(isAllowed ? ['access-control-allow-origin', origin] : [])]
      return { isAllowed, headers, ownHost: hostOf(origin) }
    },
  )

  function note(origin: string): void {
    if (refused.has(origin) || refused.size === MOST_TOLD) return
    refused.add(origin)
    onRefused(origin)
  }

  return ({ method, headers: { origin = '', host, 'access-control-request-headers': asked = '' } }) => {
    const { isAllowed, headers, ownHost } = known(origin)
    // Clients choose `origin`, so it may be malformed. The server's own pages are not refused.
    if (!isAllowed && ownHost !== undefined && ownHost !== host) note(origin)
    if (method !== 'OPTIONS' || !isAllowed) return headers
    return [
      ...headers,
      'access-control-allow-methods',
      'GET, POST',
      'access-control-allow-headers',
      asked,
      'access-control-max-age',
      MAX_AGE_S,
    ]
  }
}

/** Maximum number of refused origins that are reported. */
const MOST_TOLD = 20

/** The host and port of an origin; undefined: it isn't one. */
function hostOf(origin: string): string | undefined {
  if (!URL.canParse(origin)) return undefined
  const url = new URL(origin)
  return url.origin === origin ? url.host : undefined
}

function isAllowedOrigin(origin: string, { allowedOrigins, onLoopback }: Access): boolean {
  if (origin === '') return false
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
