/** Maximum length of a name, in characters (Unicode code points). */
const MAX_NAME_LENGTH = 191

const CONTROL_CHARACTER = /\p{Cc}/u

/** Why a text is invalid, as the predicate of a sentence about it, and the limit it exceeds. */
export interface Fault {
  message: string
  limit?: number
}

/** Why a name is invalid; undefined: it is valid. */
export function nameFault(name: string): Fault | undefined {
  return name === '' ? { message: 'must not be empty' } : textFault(name)
}

/** The same for texts that may be empty: a sequence group's name, the prefix of a list. */
export function textFault(text: string): Fault | undefined {
  // Checked first, so that very long texts are not scanned. A code point has one or two UTF-16 units, so most texts need
  // no counting.
  const { length } = text
  if (length > 2 * MAX_NAME_LENGTH || (length > MAX_NAME_LENGTH && [...text].length > MAX_NAME_LENGTH)) {
    return { message: `may have at most ${MAX_NAME_LENGTH} characters`, limit: MAX_NAME_LENGTH }
  }
  if (!text.isWellFormed())
    return { message: 'must be well-formed Unicode; it contains an unpaired surrogate' }
  return CONTROL_CHARACTER.test(text) ? { message: 'must not contain control characters' } : undefined
}

/** Names contain no control characters, so a newline is an unambiguous separator. */
const SEPARATOR = '\n'

/** Joins names into a string that is unique to them. */
export function joinNames(first: string, ...others: string[]): string {
  // Faster than `join` and `reduce`, and runs for every key that is read.
  let text = first
  for (const name of others) text += SEPARATOR + name
  return text
}

export function splitNames(text: string): string[] {
  return text.split(SEPARATOR)
}

/** A change of some values. Undefined: unchanged; null: reset to the default. */
export type Change<T> = { [Part in keyof T]?: T[Part] | null | undefined }

/** The values after a change. Other properties of the change are ignored. */
export function withChange<T extends object>(present: T, change: Change<T>, defaults: T): T {
  const valueAfter = (part: keyof T) =>
    change[part] === undefined ? present[part] : (change[part] ?? defaults[part])
  // `Object.keys` loses the type of the keys, and `Object.fromEntries` that of their values.
  const parts = Object.keys(defaults) as (keyof T)[]
  return Object.fromEntries(parts.map((part) => [part, valueAfter(part)])) as T
}
