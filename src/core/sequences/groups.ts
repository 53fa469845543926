import { nextNumber } from './blocks.ts'
import { defaultSequenceDefinition } from './definition.ts'
import { writerOf } from './format.ts'
import type { IssuedNumbers } from './state.ts'
import type { SequenceGroupKey, SequenceGroupState, StoredSequenceGroup } from './store.ts'

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

/** State of a sequence group that was never used, in a sequence that doesn't exist. */
export function unusedSequenceGroup(key: SequenceGroupKey, revision: number, at: Date): SequenceGroupState {
  const definition = defaultSequenceDefinition('UTC')
  const position = { last: null, next: null }
  return stateOf({ ...key, definition, latest: undefined, position, free: null, revision }, at)
}
