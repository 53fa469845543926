import type { IncomingMessage } from 'node:http'
import { HttpError } from '../connections/httpError.ts'

/** How a server knows its own pages. */
export interface OwnPages {
  /** The origin under which browsers reach them, if it is configured. */
  publicOrigin: string | undefined
  /** Whether requests with a foreign name in the header Host don't get here, as on a server for this machine only. */
  isHostChecked: boolean
}

/**
 * Whether a page has the origin of the server, by its configuration, or else by the header Host. The page of somebody who
 * points a name of their own at the server (DNS rebinding) has that one, too.
 */
export function isOwnPage(
  page: string,
  { headers }: IncomingMessage,
  { publicOrigin, isHostChecked }: OwnPages,
) {
  if (page === publicOrigin) return true
  return (isHostChecked || publicOrigin === undefined) && hostOf(page) === headers.host
}

/**
 * Why a page may not use credentials; undefined: it may. A browser sends the origin of the page in `Origin`, or for images
 * and navigation at most in `Referer`. The server's own pages may use all credentials; but where they are known by the
 * header Host only, those that aren't bound to origins, as these are secret.
 *
 * @param origins those of the pages that may; `*` is any, or none. Null: no page, only programs
 */
export function pageFault(
  request: IncomingMessage,
  origins: readonly string[] | null,
  own: OwnPages,
): HttpError | undefined {
  const { origin, host, referer, 'sec-fetch-site': site } = request.headers
  const isKnown = own.isHostChecked || own.publicOrigin !== undefined
  const isOwn = (page: string) => (origins === null || isKnown) && isOwnPage(page, request, own)
  if (origin !== undefined) {
    const isAllowed = isOwn(origin) || origins?.includes('*') || origins?.includes(origin)
    if (isAllowed) return undefined
    const reason = origins ? `from ${origin}` : 'in a page: it is for servers. Create a key with `origins`'
    const advice = hostOf(origin) === host ? '. For the pages of Nth itself, set NTH_PUBLIC_URL' : ''
    return new HttpError(403, 'FORBIDDEN', `These credentials may not be used ${reason}${advice}.`)
  }
  if (origins === null || origins.includes('*')) return undefined
  const hosts = [own.publicOrigin, ...origins].map((page) => page && hostOf(page))
  if (site === 'same-origin' && (own.isHostChecked || hosts.includes(host))) return undefined
  const page = referer !== undefined && URL.canParse(referer) ? new URL(referer).origin : undefined
  if (page !== undefined && (isOwn(page) || origins.includes(page))) return undefined
  const message = 'These credentials may be used by pages of their origins only; the request has no origin.'
  return new HttpError(403, 'FORBIDDEN', message)
}

function hostOf(page: string): string | undefined {
  return URL.canParse(page) ? new URL(page).host : undefined
}
