import type { IncomingMessage } from 'node:http'
import { HttpError } from '../connections/httpError.ts'

/**
 * Why a page may not use credentials that are bound to origins; undefined: it may. A browser sends the origin of the page
 * in `Origin`, or for images and navigation at most in `Referer`. The server's own pages may use all credentials.
 *
 * @param origins those of the pages that may; `*` is any, or none. Null: no page, only programs
 */
export function pageFault(
  { headers }: IncomingMessage,
  origins: readonly string[] | null,
  publicOrigin: string | undefined,
): HttpError | undefined {
  const { origin, host, referer } = headers
  const isOwn = (page: string) => page === publicOrigin || (URL.canParse(page) && new URL(page).host === host)
  if (origin !== undefined) {
    const isAllowed = isOwn(origin) || origins?.includes('*') || origins?.includes(origin)
    if (isAllowed) return undefined
    const reason = origins ? `from ${origin}` : 'in a page: it is for servers. Create a key with `origins`'
    return new HttpError(403, 'FORBIDDEN', `These credentials may not be used ${reason}.`)
  }
  if (origins === null || origins.includes('*') || headers['sec-fetch-site'] === 'same-origin')
    return undefined
  const page = referer !== undefined && URL.canParse(referer) ? new URL(referer).origin : undefined
  if (page !== undefined && (isOwn(page) || origins.includes(page))) return undefined
  const message = 'These credentials may be used by pages of their origins only; the request has no origin.'
  return new HttpError(403, 'FORBIDDEN', message)
}
