import { NthError } from './errors.ts'

/** Maximum length of a name, in characters (Unicode code points). */
export const MAX_NAME_LENGTH = 191

const CONTROL_CHARACTER = /\p{Cc}/u

/** Why a value is invalid: the first reason, as an error names only one, and 10 000 took 80 ms of a tick. */
export interface Fault {
  /** The predicate of a sentence about the value. */
  message: string
  /** The limit that it exceeds. */
  limit?: number
  /** Position of the invalid character, from 1. */
  position?: number
  /** Where the fault is within the value. */
  path?: readonly (string | number)[]
}

/** The fault of a part of a value. */
export function faultAt(path: readonly (string | number)[], fault: Fault | undefined): Fault | undefined {
  return fault && { ...fault, path: [...path, ...(fault.path ?? [])] }
}

/** Returns an error for an argument that has the right type but an invalid value. */
export function inputError({ message, limit, path = [] }: Fault): NthError {
  const argument = path.join('.')
  const details = { argument, ...(limit !== undefined && { limit }) }
  return new NthError('BAD_USER_INPUT', `Argument "${argument}" ${message}.`, details)
}

/** Why a name is invalid; undefined: it is valid. `max`: maximum characters. */
export function nameFault(name: string, max = MAX_NAME_LENGTH): Fault | undefined {
  return name === '' ? { message: 'must not be empty' } : textFault(name, max)
}

/** Why a text that may be empty is invalid: a sequence group's name, the prefix of a list. */
export function textFault(text: string, max = MAX_NAME_LENGTH): Fault | undefined {
  // Checked first, so that very long texts are not scanned. A code point has one or two UTF-16 units, so most texts need
  // no counting.
  const { length } = text
  if (length > 2 * max || (length > max && [...text].length > max))
    return { message: `may have at most ${max} characters`, limit: max }
  if (!text.isWellFormed())
    return { message: 'must be well-formed Unicode; it contains an unpaired surrogate' }
  return CONTROL_CHARACTER.test(text) ? { message: 'must not contain control characters' } : undefined
}

/** Why a number is not within inclusive bounds; undefined: it is, or there is none. */
export function rangeFault(number: number | null | undefined, min: number, max: number): Fault | undefined {
  if (number == null || (number >= min && number <= max)) return undefined
  return { message: `must be from ${min} to ${max}; it is ${number}`, limit: number < min ? min : max }
}

/** Returns the check of a list: of its length, then of a part of each item. */
export function listOf<Item>(
  faultOf: (item: Item) => Fault | undefined,
  min: number,
  max: number,
  unit: string,
  ...path: string[]
) {
  return (list: readonly Item[]): Fault | undefined => {
    const { length } = list
    if (length < min || length > max) {
      const message = `must have ${min} to ${max} ${unit}; it has ${length}`
      return { message, limit: length < min ? min : max }
    }
    for (const [index, item] of list.entries()) {
      const fault = faultOf(item)
      if (fault) return faultAt([index, ...path], fault)
    }
    return undefined
  }
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
