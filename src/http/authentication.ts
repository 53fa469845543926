import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Nth } from '../repository/nth.ts'
import {
  type ApiKey,
  anonymous,
  type Caller,
  EVERYTHING,
  grantOf,
  type Scope,
  UNRESTRICTED,
} from '../rules/rights.ts'
import { type Owner, ownerText } from '../rules/turns.ts'
import type { Clients } from './clients.ts'
import { type HeaderList, HttpError, invalidCredential, rejectRequest } from './errors.ts'
import type { Origins } from './origins.ts'
import type { RateLimits } from './rateLimits.ts'
import { createTokenCheck, type Identified, type TokenSettings } from './tokens.ts'

/** Who may call, as configured. */
export interface AccessSettings {
  adminKey?: string | undefined
  /** What callers without credentials may do, everywhere. */
  anonymous?: readonly Scope[] | undefined
  /** Origin under which the server's own pages are reached, if a proxy changes it. */
  publicOrigin?: string | undefined
  /** Networks of proxies whose `X-Forwarded-For` is trusted, as CIDR blocks. */
  trustedProxies?: readonly string[]
  /** Maximum changes a minute from one address, without credentials; undefined: unlimited. */
  anonymousPerMinute?: number | undefined
  /** Maximum changes a minute with a key for pages that has no limit of its own. */
  browserPerMinute?: number
  tokens?: TokenSettings | undefined
}

/** Whether anyone may do everything, if the server is reachable from this machine only. */
export function isUnprotected({ adminKey, anonymous }: AccessSettings): boolean {
  return adminKey === undefined && anonymous === undefined
}

/** A secret that was sent, and how. */
export interface Credential {
  text: string
  /** In the address, where logs of proxies and browsers show it. */
  isInAddress: boolean
}

/** Who sent a request, and how many changes they may make. */
export interface Access {
  caller: Caller
  owner: Owner
  /** Takes changes from the caller's limit, as in GraphQL's context; undefined: unlimited. */
  takeChanges: ((count: number) => number) | undefined
  /** The header fields that report how many are left; undefined: they are not limited. */
  limitHeaders?: (() => HeaderList) | undefined
}

export type Authenticate = (
  request: IncomingMessage,
  credential: Credential | undefined,
) => Access | Promise<Access>

/** What callers without credentials are, and may do. */
export function callerWithoutCredentials(settings: AccessSettings, onLoopback: boolean): Caller {
  if (isUnprotected(settings)) return onLoopback ? UNRESTRICTED : anonymous([])
  return anonymous(settings.anonymous ? [grantOf(...settings.anonymous)] : [])
}

const BEARER = /^bearer +([\x21-\x7e]+) *$/i

/**
 * Returns the credentials of a request: `Authorization: Bearer …`, or the parameter `key` of its address, which it removes
 * before anything else sees the address. Undefined: none.
 */
export function takeCredential(request: IncomingMessage): Credential | HttpError | undefined {
  const { authorization } = request.headers
  const inAddress = request.url?.includes('?') ? takeKeys(request) : []
  if (authorization === undefined && inAddress.length === 0) return undefined
  if (inAddress.length > (authorization === undefined ? 1 : 0)) {
    const message =
      'The request has several credentials; send one header Authorization, or one parameter "key".'
    return new HttpError(400, 'BAD_REQUEST', message)
  }
  if (authorization === undefined) return { text: inAddress[0] ?? '', isInAddress: true }
  const [, text] = BEARER.exec(authorization) ?? []
  return text === undefined ? invalidCredential() : { text, isInAddress: false }
}

/** Removes the parameter `key` from the address, and returns its values. */
function takeKeys(request: IncomingMessage): string[] {
  const { url = '' } = request
  const start = url.indexOf('?')
  const parameters = new URLSearchParams(url.slice(start))
  const keys = parameters.getAll('key')
  // Whatever else is in the address stays as it was sent.
  if (keys.length === 0) return keys
  parameters.delete('key')
  request.url = url.slice(0, start) + (parameters.size > 0 ? `?${parameters}` : '')
  return keys
}

interface AuthenticationOptions {
  access: AccessSettings
  nth: Pick<Nth, 'apiKeys'>
  /** Whether the server is reachable from this machine only. */
  onLoopback: boolean
  origins: Origins
  clients: Clients
  rateLimits: RateLimits
}

const FORWARDED = /^(forwarded|x-forwarded-.*|x-real-ip|via)$/

/**
 * Creates the function that establishes who sent a request. Synchronous unless it reads a key. It throws an HttpError for
 * credentials that are wrong (401), or used by a page that may not (403), and if they can't be read (503): then nothing of
 * the request is executed.
 */
export function createAuthentication(options: AuthenticationOptions): Authenticate {
  const { access: settings, nth, onLoopback, origins, clients, rateLimits } = options
  const { adminKey, anonymousPerMinute, browserPerMinute, tokens } = settings
  const verify = tokens && createTokenCheck(tokens)
  const adminHash = adminKey === undefined ? undefined : Buffer.from(hash('sha256', adminKey))
  const nobody = callerWithoutCredentials(settings, onLoopback)
  const isOpen = nobody === UNRESTRICTED

  function access(owner: Requester, caller: Caller, perMinute: number | null | undefined): Access {
    owner.identity = caller.identity
    if (perMinute == null) return { caller, owner, takeChanges: undefined }
    const bucket = () => ownerText(owner)
    return {
      caller,
      owner,
      takeChanges: (count) => rateLimits.take(bucket(), perMinute, count),
      limitHeaders: () => rateLimits.headers(bucket(), perMinute),
    }
  }

  function accessOf(owner: Requester, { isInAddress }: Credential, result: Identified): Access {
    const { caller, origins: ownOrigins, perMinute } = result
    if (isInAddress && ownOrigins === null) {
      const message = 'These credentials must be sent in the header Authorization: addresses are logged.'
      throw new HttpError(403, 'FORBIDDEN', message)
    }
    const fault = origins.pageFault(owner.request, ownOrigins)
    if (fault) throw fault
    return access(owner, caller, perMinute ?? (ownOrigins ? browserPerMinute : undefined))
  }

  function identify(owner: Owner, text: string): Identified | Promise<Identified> {
    const hashed = hash('sha256', text)
    // Hashes have the same length, whatever was sent.
    if (adminHash && timingSafeEqual(Buffer.from(hashed), adminHash)) return ADMINISTRATOR
    if (!text.startsWith('nth_')) {
      if (!verify) throw invalidCredential()
      return verify(text).catch(rejectRequest)
    }
    const key = nth.apiKeys.find(text, hashed, owner)
    return key instanceof Promise ? key.then(identified, rejectRequest) : identified(key)
  }

  return (request, credential) => {
    const owner = new Requester(request, clients)
    if (!credential) {
      const { origin } = request.headers
      // Refused also where a browser has sent no preflight, or kept the answer to one for a request with credentials.
      if (origin !== undefined && !origins.isAllowed(origin) && !origins.isOwnPage(origin, request)) {
        const message = `Pages of ${origin} may not call without credentials. To allow them, add this origin to NTH_ALLOWED_ORIGINS.`
        throw new HttpError(403, 'FORBIDDEN', message)
      }
      if (isOpen && isForwarded(request)) throw new HttpError(403, 'FORBIDDEN', BEHIND_PROXY)
      return access(owner, nobody, anonymousPerMinute)
    }
    const result = identify(owner, credential.text)
    if (!(result instanceof Promise)) return accessOf(owner, credential, result)
    return result.then((identified) => accessOf(owner, credential, identified))
  }
}

class Requester implements Owner {
  /** The caller's identity, once it is established. */
  identity = 'unknown'
  readonly request: IncomingMessage
  readonly #clients: Clients
  #arrivedAt: number | undefined
  #address: string | undefined

  constructor(request: IncomingMessage, clients: Clients) {
    this.request = request
    this.#clients = clients
  }

  /** When its first work began: its body may take longer to arrive than its work may. */
  get arrivedAt() {
    this.#arrivedAt ??= performance.now()
    return this.#arrivedAt
  }

  get address() {
    this.#address ??= this.#clients.of(this.request).name
    return this.#address
  }

  get hasLeft() {
    return this.request.socket.destroyed
  }
}

const ADMINISTRATOR: Identified = {
  caller: { kind: 'ADMIN', identity: 'admin', grants: [EVERYTHING] },
  origins: null,
  perMinute: null,
}

function identified(key: ApiKey | undefined): Identified {
  if (!key) throw invalidCredential()
  const { id, grants, origins, perMinute, expiresAt } = key
  return { caller: { kind: 'KEY', identity: `key ${id}`, grants, key, expiresAt }, origins, perMinute }
}

function isForwarded({ headers }: IncomingMessage): boolean {
  for (const name in headers) if (FORWARDED.test(name)) return true
  return false
}

const BEHIND_PROXY =
  'This server is open to everyone on its machine, and the request came through a proxy. Set NTH_ADMIN_KEY, and create keys for callers; or set NTH_ANONYMOUS to what callers without a key may do.'
