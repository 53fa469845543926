import type { IncomingMessage } from 'node:http'
import type { Caller } from '../../core/access/caller.ts'
import { HttpError } from '../connections/httpError.ts'

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

const NO_KEYS: readonly string[] = []

const BEARER = /^bearer +([\x21-\x7e]+) *$/i

/**
 * Returns the credentials of a request: `Authorization: Bearer …`, or the parameter `key` of its address, which it removes
 * before anything else sees the address. Undefined: none.
 */
export function takeCredential(request: IncomingMessage): Credential | HttpError | undefined {
  const { authorization } = request.headers
  const keys = request.url?.includes('?') ? takeKeys(request) : NO_KEYS
  if (authorization === undefined && keys.length === 0) return undefined
  if (keys.length > (authorization === undefined ? 1 : 0)) {
    const message =
      'The request has several credentials; send one header Authorization, or one parameter "key".'
    return new HttpError(400, 'BAD_REQUEST', message)
  }
  if (authorization === undefined) return { text: keys[0] ?? '', isInAddress: true }
  const [, text] = BEARER.exec(authorization) ?? []
  return text === undefined ? invalidCredential() : { text, isInAddress: false }
}

/** The error 401 for credentials that are unknown, expired or malformed, all with the same text. */
export function invalidCredential(): HttpError {
  const message =
    'The credentials are not valid: unknown, expired or revoked. Send an API key as "Authorization: Bearer nth_…".'
  return new HttpError(401, 'UNAUTHENTICATED', message)
}

/** Removes the parameter `key` from the address, and returns its values. */
function takeKeys(request: IncomingMessage): string[] {
  const { url = '' } = request
  const start = url.indexOf('?')
  // Its letters may be escaped.
  if (start === -1 || !/key|%/i.test(url.slice(start))) return []
  const parameters = new URLSearchParams(url.slice(start))
  const keys = parameters.getAll('key')
  if (keys.length === 0) return []
  parameters.delete('key')
  request.url = url.slice(0, start) + (parameters.size > 0 ? `?${parameters}` : '')
  return keys
}
