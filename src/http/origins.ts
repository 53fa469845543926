import type { IncomingMessage } from 'node:http'
import { type Notices, SILENT } from '../operations/log.ts'
import { type HeaderList, HttpError } from './errors.ts'

const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]']

/** How long a browser may cache that it was allowed to call, in seconds. */
const MAX_AGE_S = '7200'

const MAX_REPORTED = 20

/** In a list of the names of headers. */
const AUTHORIZATION = /(?:^|,)\s*authorization\s*(?:,|$)/i

const VARY: HeaderList = ['vary', 'Origin']

const READABLE = 'RateLimit, RateLimit-Policy, Retry-After, X-Request-Id'
const EXPOSED: HeaderList = ['access-control-expose-headers', READABLE]

/** The client and the element: the same for everyone, so that the pages of any origin may load them. */
const SHARED_MODULE = /^\/(?:client|nth)\.js(?:\?|$)/
const ANY_ORIGIN: HeaderList = ['access-control-allow-origin', '*']

interface OriginSettings {
  /** Origins whose pages may call without credentials; `*` is any. */
  allowedOrigins: readonly string[]
  /** The origin under which browsers reach the server's own pages, if it is configured. */
  publicOrigin: string | undefined
  /** Whether the server is reachable from this machine only; then pages of this machine may call, too. */
  onLoopback: boolean
}

/** Which pages may call, by the headers that browsers send: Host, Origin, Referer and Sec-Fetch-Site. */
export class Origins {
  readonly #allowed: readonly string[]
  readonly #publicOrigin: string | undefined
  readonly #onLoopback: boolean
  /** Whether requests with a foreign name in the header Host are rejected. */
  readonly #isHostChecked: boolean
  /** Names that are not foreign. */
  readonly #ownNames: ReadonlySet<string | undefined>
  readonly #reported = new Set<string>()
  readonly #notices: Notices

  /** @param notices get a warning for each origin that was rejected */
  constructor({ allowedOrigins, publicOrigin, onLoopback }: OriginSettings, notices: Notices = SILENT) {
    this.#allowed = allowedOrigins
    this.#publicOrigin = publicOrigin
    this.#onLoopback = onLoopback
    this.#isHostChecked = onLoopback && !allowedOrigins.includes('*')
    this.#notices = notices
    const origins = [...allowedOrigins, publicOrigin ?? '']
    this.#ownNames = new Set([...LOOPBACK_NAMES, ...origins.map((origin) => parsed(origin)?.hostname)])
  }

  /**
   * Why a request may not have a Host header; undefined: it may. With DNS rebinding, any page can point its own name at
   * this machine, and then call without CORS, as if it were the server's own page. So a server on loopback accepts only
   * this machine's names, the names of the allowed origins, and the name of its own pages.
   */
  hostFault(host: string): HttpError | undefined {
    // Anything besides a name and a port would be parsed as other parts of the URL.
    const hostname = /[\s/\\?#@]/.test(host) ? undefined : parsed(`http://${host}`)?.hostname
    if (hostname === undefined)
      return new HttpError(400, 'BAD_REQUEST', 'The Host header is not a valid host.')
    if (!this.#isHostChecked || this.#ownNames.has(hostname)) return undefined
    const message = `The host ${hostname} is not allowed. To allow it, add its origin to NTH_ALLOWED_ORIGINS.`
    return new HttpError(403, 'FORBIDDEN', message)
  }

  /** Whether pages of an origin may call without credentials. */
  isAllowed(origin: string): boolean {
    if (this.#allowed.includes('*') || this.#allowed.includes(origin)) return true
    const url = this.#onLoopback ? parsed(origin) : undefined
    return url?.protocol === 'http:' && LOOPBACK_NAMES.includes(url.hostname)
  }

  /**
   * The CORS headers of a response: without cookies, and without access for other origins to requests without an API key.
   * They are on every response of the server, so that its errors can be read as well.
   */
  corsHeaders({ method, headers, url = '' }: IncomingMessage, hasCredential: boolean): HeaderList {
    if (SHARED_MODULE.test(url)) return ANY_ORIGIN
    const { origin, 'access-control-request-headers': requested = '' } = headers
    if (!origin) return VARY
    // Whether a page may use a key is decided by the key, which a preflight doesn't have; the page can read a refusal.
    const isByKey = hasCredential || (method === 'OPTIONS' && AUTHORIZATION.test(requested))
    if (!isByKey && !this.isAllowed(origin)) {
      this.#report(origin, headers.host)
      return VARY
    }
    const allowed = [...VARY, 'access-control-allow-origin', origin]
    if (method !== 'OPTIONS') return [...allowed, ...EXPOSED]
    const methods = ['access-control-allow-methods', 'GET, POST', 'access-control-max-age', MAX_AGE_S]
    return [...allowed, ...methods, 'access-control-allow-headers', requested]
  }

  #report(origin: string, host: string | undefined): void {
    const url = parsed(origin)
    // The server's own pages are not rejected, and what is no origin isn't reported.
    const isForeign = url?.origin === origin && url.host !== host
    if (!isForeign || this.#reported.has(origin) || this.#reported.size >= MAX_REPORTED) return
    this.#reported.add(origin)
    this.#notices.warn(`The origin ${origin} is not allowed. To allow it, add it to NTH_ALLOWED_ORIGINS.`)
  }

  /**
   * Whether a page has the origin of the server, by its configuration, or else by the header Host. The page of somebody
   * who points a name of their own at the server (DNS rebinding) has that one, too.
   */
  isOwnPage(page: string, { headers }: IncomingMessage): boolean {
    if (page === this.#publicOrigin) return true
    return (this.#isHostChecked || this.#publicOrigin === undefined) && parsed(page)?.host === headers.host
  }

  /**
   * Why a page may not use credentials; undefined: it may. A browser sends the origin of the page in `Origin`, or for
   * images and navigation at most in `Referer`. The server's own pages may use all credentials; but where they are known
   * by the header Host only, those that aren't bound to origins, as these are secret.
   *
   * @param origins the origins of pages that may; `*` is any origin, or none. Null: no page may, only programs
   */
  pageFault(request: IncomingMessage, origins: readonly string[] | null): HttpError | undefined {
    const { origin, host, referer, 'sec-fetch-site': site } = request.headers
    const isKnown = this.#isHostChecked || this.#publicOrigin !== undefined
    const isOwn = (page: string) => (origins === null || isKnown) && this.isOwnPage(page, request)
    if (origin !== undefined) {
      const isAllowed = isOwn(origin) || origins?.includes('*') || origins?.includes(origin)
      if (isAllowed) return undefined
      const reason = origins
        ? `from ${origin}`
        : 'in a page: they are for servers. Create a key with `origins`'
      const isHost = parsed(origin)?.host === host
      const advice = isHost ? '. For the pages of Nth itself, set NTH_PUBLIC_URL' : ''
      return new HttpError(403, 'FORBIDDEN', `These credentials may not be used ${reason}${advice}.`)
    }
    if (origins === null || origins.includes('*')) return undefined
    const hosts = [this.#publicOrigin, ...origins].map((page) => page && parsed(page)?.host)
    if (site === 'same-origin' && (this.#isHostChecked || hosts.includes(host))) return undefined
    const page = referer && parsed(referer)?.origin
    if (page && (isOwn(page) || origins.includes(page))) return undefined
    const message = 'These credentials are for pages of certain origins, and the request has no origin.'
    return new HttpError(403, 'FORBIDDEN', message)
  }
}

/** Whether a server that listens on a host is reachable from this machine only. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host)
}

function parsed(url: string): URL | undefined {
  return URL.canParse(url) ? new URL(url) : undefined
}
