import { randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { Fault } from '../../rules/names.ts'
import type { Grant } from '../../rules/rights.ts'

/** An API key without its secret. */
export interface ApiKey extends ApiKeyOptions {
  id: number
  /** SHA-256 of the secret, in hexadecimal digits. The secret is random, so it needs no salt. */
  hash: string
  /** The first characters of the secret. */
  prefix: string
  createdAt: Date
  revokedAt: Date | null
  /** About a minute behind. */
  lastUsedAt: Date | null
}

export interface ApiKeyOptions {
  label: string
  grants: readonly Grant[]
  /** Origins of the pages that may use it; `*` is any. Null: a server's key, which no page may use. */
  origins: readonly string[] | null
  /** Maximum changes a minute from one client address, up to MAX_PER_MINUTE; null: the server's default. */
  perMinute: number | null
  expiresAt: Date | null
}

export const MAX_PER_MINUTE = 1_000_000

/** Why a text is neither an origin nor `*`; undefined: it is one. */
export function originFault(text: string): Fault | undefined {
  if (text === '*' || isOrigin(text)) return undefined
  return { message: 'must be an origin such as https://shop.example, without a path, or *' }
}

/** Whether a text is an origin as browsers send it: no path, no trailing slash, no default port. */
export function isOrigin(text: string): boolean {
  return URL.canParse(text) && new URL(text).origin === text
}

/**
 * API keys: `nth_`, 128 random bits and their CRC-32, in hexadecimal digits. The checksum tells a mistyped key from an
 * unknown one without a read of the database.
 */
const FORM = /^nth_([0-9a-f]{32})([0-9a-f]{8})$/
const RANDOM_BYTES = 16
const PREFIX_LENGTH = 'nth_'.length + 8

export function createSecret(): string {
  const random = randomBytes(RANDOM_BYTES).toString('hex')
  return `nth_${random}${checksum(random)}`
}

/** Whether a text has the form of an API key. */
export function isSecret(text: string): boolean {
  const [, random = '', sum] = FORM.exec(text) ?? []
  return sum === checksum(random)
}

/** The first characters of a key, by which people and logs identify it. */
export function prefixOf(secret: string): string {
  return secret.slice(0, PREFIX_LENGTH)
}

function checksum(random: string): string {
  return crc32(random).toString(16).padStart(8, '0')
}
