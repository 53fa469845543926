import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { ApiKeys } from '../repository/apiKeys.ts'
import { NthError } from '../rules/errors.ts'
import { type ApiKey, anonymous, type Caller, EVERYTHING, grantOf, UNRESTRICTED } from '../rules/rights.ts'
import type { Clients } from './clients.ts'
import {
  type AccessSettings,
  type Credential,
  type Identified,
  invalidCredential,
  isUnprotected,
  type Tokens,
} from './credentials.ts'
import { type HeaderList, HttpError, httpErrorFor } from './errors.ts'
import type { Origins } from './origins.ts'
import type { RateLimits } from './rateLimits.ts'

/** Who sent a request, and how many changes they may make. */
export interface Access {
  caller: Caller
  /** As in the context of GraphQL. */
  takeChanges: ((count: number) => number) | undefined
  /** The header fields that tell how many are left; undefined: they are not limited. */
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

interface AuthenticationOptions {
  settings: AccessSettings
  apiKeys: Pick<ApiKeys, 'find'>
  tokens: Tokens | undefined
  /** Whether the server is reachable from this machine only. */
  onLoopback: boolean
  origins: Origins
  clients: Clients
  rateLimits: RateLimits
}

/** Headers that a proxy adds. */
const FORWARDED = /^(forwarded|x-forwarded-.*|x-real-ip|via)$/

/**
 * Creates the function that establishes who sent a request. Synchronous unless it reads a key. It throws an HttpError for
 * credentials that are wrong (401), or used by a page that may not (403), and if they can't be read (503): then nothing of
 * the request is executed.
 */
export function createAuthentication({
  settings,
  apiKeys,
  tokens,
  onLoopback,
  origins,
  clients,
  rateLimits,
}: AuthenticationOptions): Authenticate {
  const { adminKey, anonymousPerMinute, browserPerMinute } = settings
  const adminHash = adminKey === undefined ? undefined : Buffer.from(hash('sha256', adminKey))
  const nobody = callerWithoutCredentials(settings, onLoopback)
  const isOpen = nobody === UNRESTRICTED

  function access(request: IncomingMessage, caller: Caller, perMinute: number | null | undefined): Access {
    if (perMinute == null) return { caller, takeChanges: undefined }
    const bucket = () => `${caller.identity}\n${clients.of(request).name}`
    return {
      caller,
      takeChanges: (count) => rateLimits.take(bucket(), perMinute, count),
      limitHeaders: () => rateLimits.headers(bucket(), perMinute),
    }
  }

  function accessOf(request: IncomingMessage, { isInAddress }: Credential, found: Identified): Access {
    const { caller, origins: ownOrigins, perMinute } = found
    if (isInAddress && ownOrigins === null) {
      const message = 'These credentials must be sent in the header Authorization: addresses are logged.'
      throw new HttpError(403, 'FORBIDDEN', message)
    }
    const fault = origins.pageFault(request, ownOrigins)
    if (fault) throw fault
    return access(request, caller, perMinute ?? (ownOrigins ? browserPerMinute : undefined))
  }

  function identify(text: string): Identified | Promise<Identified> {
    const hashed = hash('sha256', text)
    // Hashes have the same length, whatever was sent.
    if (adminHash && timingSafeEqual(Buffer.from(hashed), adminHash)) return ADMINISTRATOR
    if (!text.startsWith('nth_')) {
      if (!tokens) throw invalidCredential()
      return tokens.verify(text).catch(asHttpError)
    }
    const key = apiKeys.find(text, hashed)
    return key instanceof Promise ? key.then(identified, asHttpError) : identified(key)
  }

  return (request, credential) => {
    if (!credential) {
      const { origin } = request.headers
      // Also where a browser has sent no preflight, or kept the answer to one for a request with credentials.
      if (origin !== undefined && !origins.isAllowed(origin) && !origins.isOwnPage(origin, request)) {
        const message = `Pages of ${origin} may not call without credentials. To allow them, add this origin to NTH_ALLOWED_ORIGINS.`
        throw new HttpError(403, 'FORBIDDEN', message)
      }
      if (isOpen && isForwarded(request)) throw new HttpError(403, 'FORBIDDEN', BEHIND_PROXY)
      return access(request, nobody, anonymousPerMinute)
    }
    const found = identify(credential.text)
    if (!(found instanceof Promise)) return accessOf(request, credential, found)
    return found.then((identified) => accessOf(request, credential, identified))
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

/** A failure to read credentials, before anything was executed. */
function asHttpError(error: unknown): never {
  throw error instanceof NthError && !(error instanceof HttpError) ? httpErrorFor(error) : error
}

function isForwarded({ headers }: IncomingMessage): boolean {
  for (const name in headers) if (FORWARDED.test(name)) return true
  return false
}

const BEHIND_PROXY =
  'This server is open to everyone on its machine, and the request came through a proxy. Set NTH_ADMIN_KEY, and create keys for callers; or set NTH_ANONYMOUS to what callers without a key may do.'
