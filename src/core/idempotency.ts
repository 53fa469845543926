import { hash } from 'node:crypto'
import type { OperationResult } from './applyOperation.ts'
import { NthError } from './errors.ts'
import { joinNames } from './names.ts'

/** A caller's claim that what it asks under its key is done once only. */
export interface Claim {
  /** The same for the same idempotency key in the same namespace only. */
  key: string
  /** SHA-256 of that, in hexadecimal digits. */
  hash: string
  /** SHA-256 of what is asked, in hexadecimal digits. */
  fingerprint: string
}

/** What was done under a key. */
export interface Remembered {
  claim: Claim
  at: Date
  answers: readonly OperationResult[]
}

/** What is found to have been done under a key, and how long ago by the database's clock: processes' clocks differ. */
export interface Earlier extends Remembered {
  ageMs: number
}

/** The longest idempotency key, in characters. */
const MAX_KEY_LENGTH = 255

const PRINTABLE = /^[\x20-\x7e]*$/

/** What is wrong with an idempotency key, as the rest of a sentence that begins with its name. */
export function keyFault(key: string): { message: string; limit?: number } | undefined {
  if (key === '') return { message: 'must not be empty' }
  if (key.length > MAX_KEY_LENGTH) {
    return { message: `may have at most ${MAX_KEY_LENGTH} characters`, limit: MAX_KEY_LENGTH }
  }
  return PRINTABLE.test(key) ? undefined : { message: 'must consist of printable ASCII characters' }
}

/** Makes a claim. `asked`: the mutation's name and its arguments, which a repeat must have, too. */
export function claimOf(namespace: string, key: string, asked: readonly unknown[]): Claim {
  const hashed = hash('sha256', joinNames(namespace, key))
  return { key: `key ${hashed}`, hash: hashed, fingerprint: hash('sha256', JSON.stringify(asked, inOrder)) }
}

/** The answer to a repeat. */
export function repeated({ claim: first, at, answers }: Remembered, claim: Claim) {
  if (first.fingerprint === claim.fingerprint) return { answers, at, isReplayed: true }
  return new NthError(
    'IDEMPOTENCY_KEY_REUSED',
    'This idempotency key was used with another operation or other arguments; nothing was changed. Use a new key for each thing to do.',
  )
}

/** Has the properties of objects in one order, whichever way they came. */
function inOrder(_: string, value: unknown): unknown {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
}
