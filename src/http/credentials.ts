import type { IncomingMessage } from 'node:http'
import {
  createLocalJWKSet,
  createRemoteJWKSet,
  customFetch,
  errors,
  type FetchImplementation,
  type JWTPayload,
  jwtVerify,
} from 'jose'
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import { unavailable } from '../rules/errors.ts'
import { type Caller, grantFault, MAX_GRANTS, originFault, SCOPES, type Scope } from '../rules/rights.ts'
import { HttpError } from './errors.ts'

/** Who may call, as configured. */
export interface AccessSettings {
  /** The administrator's key. */
  adminKey?: string | undefined
  /** What callers without credentials may do, everywhere. */
  anonymous?: readonly Scope[] | undefined
  /** Origin under which the server's own pages are reached, if a proxy changes it. */
  publicOrigin?: string | undefined
  /** Networks of proxies whose `X-Forwarded-For` is trusted, as CIDR blocks. */
  trustedProxies?: readonly string[]
  /** Maximum changes a minute from one address, without credentials; undefined: unlimited. */
  anonymousPerMinute?: number | undefined
  /** The same with a browser key that has no limit of its own. */
  browserPerMinute?: number
  tokens?: TokenSettings | undefined
}

/** JSON Web Tokens that are accepted. */
export interface TokenSettings {
  issuer: string
  audience: string
  /** Where the issuer publishes its keys. */
  jwksUrl: string
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

/** A caller with credentials. */
export interface Identified {
  caller: Caller
  /** Pages that may use the credentials; null: none. */
  origins: readonly string[] | null
  perMinute: number | null
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

/** The error 401 for credentials that are unknown, expired or malformed, all with the same text. */
export function invalidCredential(): HttpError {
  const message =
    'The credentials are not valid: unknown, expired or revoked. Send an API key as "Authorization: Bearer nth_…".'
  const error = new HttpError(401, 'UNAUTHENTICATED', message)
  error.headers['www-authenticate'] += ', error="invalid_token"'
  return error
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

const ALGORITHMS = ['RS256', 'ES256', 'EdDSA']
/** How far the clocks of issuer and server may differ, in milliseconds. */
export const LEEWAY_MS = 30_000
/** How often the issuer's keys are fetched again, in milliseconds. */
const REFRESH_MS = 600_000
/** How long no other fetch is tried after one that failed, in milliseconds. */
const RETRY_MS = 10_000
/** How long a verified token is remembered, in milliseconds: as long as a key that the issuer has withdrawn still holds. */
const REMEMBERED_MS = 60_000
const MAX_REMEMBERED = 10_000
const MAX_LENGTH = 8_000
/** Maximum length of an issuer's answer: a thousand keys. */
const MAX_ANSWER_BYTES = 1_000_000
/** The last one that a Date can hold. */
const LAST_INSTANT = 8.64e15

const grant = z
  .strictObject({
    scopes: z.array(z.enum(SCOPES).exclude(['ADMIN'])),
    namespace: z.string().nullable().default(null),
    names: z.array(z.string()).nullable().default(null),
    prefix: z.string().default(''),
    maxDelta: z.int().default(1),
    maxCount: z.int().default(1),
    onceOnly: z.boolean().default(false),
  })
  .refine((value) => !grantFault(value))

/** The claim `nth`. Unknown members are refused: one that limits a right must not be ignored. */
const claim = z.strictObject({
  grants: z.array(grant).min(1).max(MAX_GRANTS),
  origins: z
    .array(z.string().refine((origin) => !originFault(origin)))
    .min(1)
    .max(100)
    .nullable()
    .default(null),
  perMinute: z.int().min(1).nullable().default(null),
})

export type Tokens = ReturnType<typeof createTokens>

/** Verifies JSON Web Tokens of one issuer (RFC 7519), by its published keys (RFC 7517). */
export function createTokens({ issuer, audience, jwksUrl }: TokenSettings) {
  // Keys in memory hold while the issuer doesn't answer; they are fetched again here, and for an unknown `kid`.
  const keys = createRemoteJWKSet(new URL(jwksUrl), {
    cacheMaxAge: Number.POSITIVE_INFINITY,
    [customFetch]: patientFetch(),
  })
  const remembered = new LRUCache<string, Identified & { expiresAtMs: number }>({
    max: MAX_REMEMBERED,
    ttl: REMEMBERED_MS,
  })
  let refreshedAt = performance.now()

  function refreshKeys(): void {
    if (performance.now() - refreshedAt < REFRESH_MS) return
    refreshedAt = performance.now()
    keys.reload().catch(() => undefined)
  }

  return {
    /**
     * Returns the caller of a token.
     *
     * @throws {HttpError} 401 if it isn't valid
     * @throws {NthError} UNAVAILABLE if the issuer's keys are needed and can't be fetched
     */
    async verify(text: string): Promise<Identified> {
      const known = remembered.get(text)
      if (known && Date.now() < known.expiresAtMs) return known
      if (text.length > MAX_LENGTH) throw invalidCredential()
      refreshKeys()
      const { payload } = await jwtVerify(text, keys, {
        issuer,
        audience,
        algorithms: ALGORITHMS,
        clockTolerance: LEEWAY_MS / 1000,
        requiredClaims: ['exp', 'sub'],
      }).catch((error) => {
        // Other errors than the library's own are of the keys.
        throw error instanceof errors.JOSEError
          ? invalidCredential()
          : unavailable("The token issuer's keys can't be fetched.", error)
      })
      const found = identifiedBy(payload)
      remembered.set(text, found)
      return found
    },
  }
}

/**
 * A fetch that isn't tried again for a while after it has failed: forged tokens must not cause one each. Any answer but a
 * set of keys is a failure.
 */
function patientFetch(): FetchImplementation {
  let failedAt = Number.NEGATIVE_INFINITY
  return async (...request) => {
    if (performance.now() - failedAt < RETRY_MS) throw new Error("The issuer didn't answer a moment ago")
    try {
      const response = await fetch(...request)
      if (!response.ok) throw new Error(`Status ${response.status}`)
      const keys = JSON.parse(await textOf(response))
      // Throws unless it is a set of keys.
      createLocalJWKSet(keys)
      return Response.json(keys)
    } catch (cause) {
      failedAt = performance.now()
      throw new Error("The issuer's keys can't be fetched", { cause })
    }
  }
}

async function textOf({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of body ?? []) {
    length += chunk.length
    // Ends the connection.
    if (length > MAX_ANSWER_BYTES) throw new Error(`More than ${MAX_ANSWER_BYTES} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function identifiedBy({ iss, sub, exp = 0, nth }: JWTPayload) {
  const parsed = claim.safeParse(nth)
  // The library checks only that there is a subject: in the JSON it may have any type.
  if (!parsed.success || typeof sub !== 'string' || sub === '') throw invalidCredential()
  const { grants, origins, perMinute } = parsed.data
  const expiresAt = new Date(Math.min(exp * 1000, LAST_INSTANT))
  const caller: Caller = { kind: 'TOKEN', identity: `token ${iss}\n${sub}`, subject: sub, grants, expiresAt }
  return { caller, origins, perMinute, expiresAtMs: expiresAt.getTime() + LEEWAY_MS }
}
