import { joinNames } from '../names.ts'
import { nextNumber, type Position } from './blocks.ts'
import type { SequenceDefinition } from './definition.ts'
import { writerOf } from './format.ts'
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

export interface StoredSequenceGroup extends SequenceGroupKey {
  definition: SequenceDefinition
  /** The last number issued, and its format; undefined: none yet. */
  latest: { value: number; at: Date; format: string | null; timeZone: string } | undefined
  /** Position in the current period. */
  position: Position
  /** The first released or expired number to reissue; null: none. */
  free: number | null
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

/** State of a sequence group as stored, at an instant. */
export function stateOf(stored: StoredSequenceGroup, at: Date): SequenceGroupState {
  const { definition, latest, position, free, ...state } = stored
  const nextValue = free ?? nextNumber(definition, position)
  return {
    ...state,
    lastValue: latest?.value ?? null,
    lastFormatted: latest ? writerOf(latest, state.group, latest.at)(latest.value) : null,
    nextValue,
    nextFormatted: nextValue === null ? null : writerOf(definition, state.group, at)(nextValue),
    updatedAt: latest?.at ?? null,
  }
}
