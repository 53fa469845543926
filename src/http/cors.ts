import type { IncomingMessage } from 'node:http'
import type { HeaderList } from './front.ts'
import { type Access, LOOPBACK_NAMES } from './hosts.ts'
import { remember } from './remember.ts'

/** For how long a browser may remember that it was allowed to call, in seconds. */
const MAX_AGE_S = '7200'

/**
 * The headers that tell a browser whether the page that asks may see the answer: without credentials, and
 * other origins are told nothing. On every answer of the server, so that its errors can be read as well.
 */
export function openCors(
  access: Access,
  /** Told of an origin whose page may not see the answer, once. */
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
    // Callers choose it; and the server's own pages are not refused.
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

/** Of so many origins it is said that they were refused. */
const MOST_TOLD = 20

/** The host and port of an origin; undefined: it is none. */
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
