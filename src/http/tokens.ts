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
import { type Caller, grantFault, MAX_GRANTS, originsFault, SCOPES } from '../rules/rights.ts'
import { MAX_SUBJECT_LENGTH } from '../rules/subjects.ts'
import { type HttpError, invalidCredential } from './errors.ts'

/** JSON Web Tokens that are accepted. */
export interface TokenSettings {
  issuer: string
  audience: string
  /** Where the issuer publishes its keys. */
  jwksUrl: string
}

/** A caller with credentials. */
export interface Identified {
  caller: Caller
  /** Pages that may use the credentials; null: none. */
  origins: readonly string[] | null
  perMinute: number | null
}

const ALGORITHMS = ['RS256', 'ES256', 'EdDSA']
/** How far the clocks of issuer and server may differ, in milliseconds. */
export const LEEWAY_MS = 30_000
/** How often the issuer's keys are fetched again, in milliseconds. */
const REFRESH_MS = 600_000
/** How long no other fetch is tried after one that failed, or for another unknown `kid`, in milliseconds. */
const RETRY_MS = 10_000
/**
 * How long a verified token is remembered, in milliseconds: as long as a key that the issuer has withdrawn still holds.
 * To verify one takes 135 to 190 µs of processor time (Node 20).
 */
const REMEMBERED_MS = 60_000
const MAX_REMEMBERED = 10_000
export const MAX_LENGTH = 8_000
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
    .array(z.string())
    .refine((list) => !originsFault(list))
    .nullable()
    .default(null),
  perMinute: z.int().min(1).nullable().default(null),
})

/** Creates the function that verifies JSON Web Tokens of one issuer (RFC 7519), by its published keys (RFC 7517). */
export function createTokenCheck({ issuer, audience, jwksUrl }: TokenSettings) {
  // Keys in memory hold while the issuer doesn't answer; they are fetched again below, and for an unknown `kid`.
  const keys = createRemoteJWKSet(new URL(jwksUrl), {
    cacheMaxAge: Number.POSITIVE_INFINITY,
    cooldownDuration: RETRY_MS,
    [customFetch]: patientFetch(),
  })
  const bounds = { max: MAX_REMEMBERED, ttl: REMEMBERED_MS }
  const remembered = new LRUCache<string, Identified & { expiresAtMs: number }>(bounds)
  let refreshedAt = performance.now()

  /**
   * Returns the caller of a token.
   *
   * @throws {HttpError} 401 if it isn't valid
   * @throws {NthError} UNAVAILABLE if the issuer's keys are needed and can't be fetched
   */
  return async (text: string): Promise<Identified> => {
    const cached = remembered.get(text)
    if (cached && Date.now() < cached.expiresAtMs) return cached
    if (text.length > MAX_LENGTH) throw refused(`it is longer than ${MAX_LENGTH} characters`)
    if (performance.now() - refreshedAt >= REFRESH_MS) {
      refreshedAt = performance.now()
      keys.reload().catch(() => undefined)
    }
    const { payload } = await jwtVerify(text, keys, {
      issuer,
      audience,
      algorithms: ALGORITHMS,
      clockTolerance: LEEWAY_MS / 1000,
      requiredClaims: ['exp', 'sub'],
    }).catch((error) => {
      // Other errors than the library's own are of the keys.
      if (error instanceof errors.JOSEError) throw refused(error.message)
      throw unavailable("The token issuer's keys can't be fetched.", new Error(jwksUrl, { cause: error }))
    })
    const identified = identifiedBy(payload)
    remembered.set(text, identified)
    return identified
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

/** The error for a token, with the reason for the log, which has nothing of the token. */
function refused(reason: string): HttpError {
  return invalidCredential(new Error(`The token is refused: ${reason}`))
}

function identifiedBy({ iss, sub, exp = 0, nth }: JWTPayload) {
  const parsed = claim.safeParse(nth)
  if (!parsed.success) {
    const [{ path, message } = { path: [], message: '' }] = parsed.error.issues
    throw refused(`the claim ${['nth', ...path].join('.')} is invalid: ${message}`)
  }
  // The library checks only that there is a subject: in the JSON it may have any type.
  if (typeof sub !== 'string' || sub === '' || sub.length > MAX_SUBJECT_LENGTH)
    throw refused(`the claim sub is no text of 1 to ${MAX_SUBJECT_LENGTH} characters`)
  const { grants, origins, perMinute } = parsed.data
  const expiresAt = new Date(Math.min(exp * 1000, LAST_INSTANT))
  const caller: Caller = { kind: 'TOKEN', identity: `token ${iss}\n${sub}`, subject: sub, grants, expiresAt }
  return { caller, origins, perMinute, expiresAtMs: expiresAt.getTime() + LEEWAY_MS }
}
