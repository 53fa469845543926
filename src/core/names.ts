/** The longest name, in characters (Unicode code points). */
export const MAX_NAME_LENGTH = 191

const CONTROL_CHARACTER = /\p{Cc}/u

/** What is wrong with a text, as the rest of a sentence that begins with its name, and the limit it crosses. */
export interface Fault {
  message: string
  limit?: number
}

/** What is wrong with a name; `undefined` if nothing is. */
export function nameFault(name: string): Fault | undefined {
  return name === '' ? { message: 'must not be empty' } : textFault(name)
}

/** The same for texts that may be empty: a sequence's group, the prefix of a list. */
export function textFault(text: string): Fault | undefined {
  // First: what is very long isn't looked into.
  if (isLongerThan(text, MAX_NAME_LENGTH)) {
    return { message: `may have at most ${MAX_NAME_LENGTH} characters`, limit: MAX_NAME_LENGTH }
  }
  if (!text.isWellFormed())
    return { message: 'must be well-formed Unicode; it holds half of a surrogate pair' }
  if (CONTROL_CHARACTER.test(text)) return { message: 'must not contain control characters' }
  return undefined
}

// A code point has one or two UTF-16 units, so most texts are settled without counting.
function isLongerThan(text: string, limit: number): boolean {
  if (text.length <= limit) return false
  if (text.length > 2 * limit) return true
  return [...text].length > limit
}

/** Names hold no control characters, so a line end stands between them without doubt. */
const SEPARATOR = '\n'

/** Several names as one text, the same only for the same names. */
export function joinNames(first: string, ...others: string[]): string {
  // Twice as fast as `join`, for every key that is read.
  return others.reduce((text, name) => text + SEPARATOR + name, first)
}

/** The names that `joinNames` joined. */
export function splitNames(text: string): string[] {
  return text.split(SEPARATOR)
}
