import { hash, randomBytes } from 'node:crypto'
import { type Fault, nameFault } from './names.ts'

export const MAX_SUBJECT_LENGTH = 255

/** Why a text can't be a subject, as the predicate of a sentence about it; undefined: it can. `reserved`: characters. */
export function subjectFault(subject: string, reserved = 0): Fault | undefined {
  return nameFault(subject, MAX_SUBJECT_LENGTH - reserved)
}

/** A new random salt, in hexadecimal digits. */
export function createSalt(): string {
  return randomBytes(16).toString('hex')
}

/**
 * A subject as it is stored: 16 bytes of SHA-256, in hexadecimal digits. The salt of a counter or sequence keeps its
 * subjects from being linked with subjects of others. Whoever can read the salt can test guesses.
 */
export function subjectHash(salt: string, subject: string): string {
  return hash('sha256', salt + subject).slice(0, 32)
}
