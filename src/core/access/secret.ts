import { randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

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
