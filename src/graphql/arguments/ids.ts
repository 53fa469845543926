import type { CounterKey } from '../../core/counters/state.ts'
import type { SequenceGroupKey } from '../../core/sequences/store.ts'
import { type Fault, nameFault, splitNames, textFault } from '../../rules/names.ts'

/** Types that have IDs, with the check for each name in an ID. */
const types: Partial<Record<string, ((text: string) => Fault | undefined)[]>> = {
  Namespace: [nameFault],
  Counter: [nameFault, nameFault],
  Sequence: [nameFault, nameFault],
  SequenceGroup: [nameFault, nameFault, textFault],
  ApiKey: [(id) => (/^[1-9]\d{0,14}$/.test(id) ? undefined : { message: 'is not a number' })],
  Reservation: [(token) => (/^[0-9a-f]{32}$/.test(token) ? undefined : { message: 'is not a token' })],
}

/** Creates an ID from a type and names. Base64url, so that it needs no escaping in a URL. */
export function encodeId(typename: string, names: string): string {
  return Buffer.from(`${typename}:${names}`, 'utf8').toString('base64url')
}

/** Splits an ID that passed `idFault`. */
export function decodeId(id: string): { typename: string; id: string } {
  const text = Buffer.from(id, 'base64url').toString('utf8')
  const colon = text.indexOf(':')
  return { typename: text.slice(0, colon), id: text.slice(colon + 1) }
}

/** The key in the names of a counter's or sequence's ID. */
export function keyOf(names: string): CounterKey {
  const [namespace = '', name = ''] = splitNames(names)
  return { namespace, name }
}

/** The key in the names of a sequence group's ID. */
export function sequenceGroupKeyOf(names: string): SequenceGroupKey {
  const [namespace = '', sequence = '', group = ''] = splitNames(names)
  return { namespace, sequence, group }
}

/** Longer than any ID: three names of 191 characters of up to 4 bytes make about 3 100 characters. */
const TOO_LONG = 4000

/** Why a text is not an ID, which means that `encodeId` did not create it; undefined: it is one. */
export function idFault(text: string): Fault | undefined {
  const isValid = text.length < TOO_LONG && isId(text)
  return isValid ? undefined : { message: 'is not an id; use an id that the API returned' }
}

function isId(text: string): boolean {
  const { typename, id } = decodeId(text)
  // Decoding ignores invalid characters and incomplete code points, but an object must have only one ID.
  if (encodeId(typename, id) !== text) return false
  const names = splitNames(id)
  const faults = Object.hasOwn(types, typename) ? types[typename] : undefined
  return faults?.length === names.length && faults.every((fault, index) => !fault(names[index] ?? ''))
}
