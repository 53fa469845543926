import type { Page } from '../counters/pages.ts'
import type { Grant } from './grants.ts'

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

export interface ApiKeyStore {
  create(options: ApiKeyOptions & Pick<ApiKey, 'hash' | 'prefix'>): Promise<ApiKey>
  /** Reads the keys that exist, in any order. */
  read(hashes: readonly { hash: string }[]): Promise<ApiKey[]>
  /** Revokes a key, once; undefined: it doesn't exist. */
  revoke(id: number): Promise<ApiKey | undefined>
  find(id: number): Promise<ApiKey | undefined>
  /** Lists keys in the order of their creation. */
  list(page: Page<number>): Promise<ApiKey[]>
  /** A text that differs after any revocation. */
  readRevocations(): Promise<string>
  /** Stores when keys were last used. */
  noteUse(uses: readonly { id: number; at: Date }[]): Promise<void>
}
