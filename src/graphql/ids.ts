import { type Fault, nameFault, splitNames, textFault } from '../core/names.ts'

/** The types that have ids, and what each of the names in an id must be. */
const types: Partial<Record<string, ((text: string) => Fault | undefined)[]>> = {
  Namespace: [nameFault],
  Counter: [nameFault, nameFault],
  Sequence: [nameFault, nameFault],
  SequenceGroup: [nameFault, nameFault, textFault],
  Reservation: [(token) => (/^[0-9a-f]{32}$/.test(token) ? undefined : { message: 'is not a token' })],
}

/** Makes the id of a thing from its type and names. Base64url, so that it may stand in a URL as it is. */
export function encodeId(typename: string, names: string): string {
  return Buffer.from(`${typename}:${names}`, 'utf8').toString('base64url')
}

/** Takes an id apart that `idFault` found right. */
export function decodeId(id: string): { typename: string; id: string } {
  const text = Buffer.from(id, 'base64url').toString('utf8')
  const colon = text.indexOf(':')
  return { typename: text.slice(0, colon), id: text.slice(colon + 1) }
}

/** Longer than any id: three names of 191 characters, of 4 bytes at most, are some 3 100. */
const TOO_LONG = 4000

/** What is wrong with a text as an id: `encodeId` can't have made it. */
export function idFault(text: string): Fault | undefined {
  const isRight = text.length < TOO_LONG && isId(text)
  return isRight ? undefined : { message: 'is not an id; use one as another answer gave it' }
}

function isId(text: string): boolean {
  const { typename, id: names } = decodeId(text)
  // Decoding forgives foreign characters and halves of letters; but one thing must have one id only.
  const isCanonical = encodeId(typename, names) === text
  return isCanonical && hasNames(typename, splitNames(names))
}

function hasNames(typename: string, names: string[]): boolean {
  const faults = Object.hasOwn(types, typename) ? types[typename] : undefined
  return faults?.length === names.length && faults.every((fault, index) => !fault(names[index] ?? ''))
}
