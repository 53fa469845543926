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
export function openCors(access: Access): (request: IncomingMessage) => HeaderList {
  const headersFor = remember((origin): HeaderList => {
    const isAllowed = isAllowedOrigin(origin, access)
    return ['vary', 'Origin', ...(isAllowed ? ['access-control-allow-origin', origin] : [])]
  })

  return ({ method, headers: { origin = '', 'access-control-request-headers': asked = '' } }) => {
    const headers = headersFor(origin)
    if (method !== 'OPTIONS' || !isAllowedOrigin(origin, access)) return headers
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
