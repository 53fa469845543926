import { writerOf } from '../../rules/format.ts'
import { joinNames } from '../../rules/names.ts'
import type { SequenceDefinition } from './definition.ts'
import type { IssuedNumbers } from './state.ts'

export interface SequenceKey {
  namespace: string
  name: string
}

export interface SequenceGroupKey {
  namespace: string
  sequence: string
  /** Name of the sequence group; may be empty. */
  group: string
}

export interface SequenceState extends SequenceKey {
  /** Undefined: neither used nor defined; its namespace's defaults apply. */
  definition: SequenceDefinition | undefined
  /** When it was first used or defined; null: never. */
  createdAt: Date | null
}

export interface SequenceGroupState extends SequenceGroupKey {
  /** The last number issued; in a gapless sequence the furthest one; null: none yet. */
  lastValue: number | null
  lastFormatted: string | null
  /** The number that would be issued now; null: the sequence is exhausted. */
  nextValue: number | null
  /** `nextValue` as it would be formatted now. */
  nextFormatted: string | null
  updatedAt: Date | null
  /** Higher in the newer of two states. */
  revision: number
}

/** A key as one string. */
export function sequenceGroupKeyText({ namespace, sequence, group }: SequenceGroupKey): string {
  return joinNames(namespace, sequence, group)
}

/** Numbers issued to one caller. */
export interface SequenceNumbers {
  key: SequenceGroupKey
  issued: IssuedNumbers
  at: Date
  /** Whether an earlier call with the same idempotency key issued them. */
  isReplayed: boolean
}

/** State of a sequence group after a call that issued numbers. */
export function sequenceGroupAfter(numbers: SequenceNumbers) {
  const { lastValue, nextValue, revision } = numbers.issued
  const write = writerFor(numbers)
  const [lastFormatted, nextFormatted] = [write(lastValue), nextValue === null ? null : write(nextValue)]
  const after = { ...numbers.key, lastValue, lastFormatted, nextValue, nextFormatted, updatedAt: numbers.at }
  return revision === undefined ? after : { ...after, revision }
}

/** Returns a function that formats the numbers of a block. */
export function writerFor({ key, issued, at }: SequenceNumbers): (value: number) => string {
  return writerOf(issued, key.group, at)
}
