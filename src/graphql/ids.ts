import { NthError } from '../core/errors.ts'
import { type Fault, nameFault, textFault } from '../core/names.ts'

/** The types that have ids, and what each of the names in an id must be. */
const types: Partial<Record<string, ((text: string) => Fault | undefined)[]>> = {
  Namespace: [nameFault],
  Counter: [nameFault, nameFault],
  Sequence: [nameFault, nameFault],
  SequenceGroup: [nameFault, nameFault, textFault],
}

/** Names hold no control characters, so a line end stands between them without doubt. */
const SEPARATOR = '\n'

/** The names behind a thing as one text: its id, but for the type. */
export function joinNames(...names: string[]): string {
  return names.join(SEPARATOR)
}

export function splitNames(text: string): string[] {
  return text.split(SEPARATOR)
}

/** Makes the id of a thing from its type and names. Base64url, so that it may stand in a URL as it is. */
export function encodeId(typename: string, names: string): string {
  return Buffer.from(`${typename}:${names}`, 'utf8').toString('base64url')
}

/**
 * Takes an id apart again.
 *
 * @throws {NthError} BAD_USER_INPUT for what `encodeId` can't have made
 */
export function decodeId(id: string): { typename: string; id: string } {
  const text = Buffer.from(id, 'base64url').toString('utf8')
  const colon = text.indexOf(':')
  const typename = text.slice(0, colon)
  const names = text.slice(colon + 1)
  // Decoding forgives foreign characters and halves of letters; but one thing must have one id only.
  const isCanonical = encodeId(typename, names) === id
  if (!isCanonical || !hasNames(typename, splitNames(names))) throw malformed(id)
  return { typename, id: names }
}

function hasNames(typename: string, names: string[]): boolean {
  const faults = Object.hasOwn(types, typename) ? types[typename] : undefined
  return faults?.length === names.length && faults.every((fault, index) => !fault(names[index] ?? ''))
}

const SHOWN = 60

function malformed(id: string): NthError {
  const shown = id.length > SHOWN ? `${id.slice(0, SHOWN)}…` : id
  return new NthError('BAD_USER_INPUT', `"${shown}" is not an id. Use an id as another answer gave it.`, {
    argument: 'id',
  })
}
