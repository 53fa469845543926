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
export function sequenceGroupAfter(
  numbers: SequenceNumbers,
): Omit<SequenceGroupState, 'revision'> & Partial<Pick<SequenceGroupState, 'revision'>> {
  const { key, at } = numbers
  const { lastValue, nextValue, revision } = numbers.issued
  const write = writerFor(numbers)
  const nextFormatted = nextValue === null ? null : write(nextValue)
  const after = {
    ...key,
    lastValue,
    lastFormatted: write(lastValue),
    nextValue,
    nextFormatted,
    updatedAt: at,
  }
  return revision === undefined ? after : { ...after, revision }
}

/** Returns a function that formats the numbers of a block. */
export function writerFor({ key, issued, at }: SequenceNumbers): (value: number) => string {
  return writerOf(issued, key.group, at)
}

/** State of a sequence group as stored, at an instant. */
export function stateOf(stored: StoredSequenceGroup, at: Date): SequenceGroupState {
  const { namespace, sequence, group, definition, latest, position, free, revision } = stored
  const nextValue = free ?? nextNumber(definition, position)
  return {
    namespace,
    sequence,
    group,
    lastValue: latest?.value ?? null,
    lastFormatted: latest ? writerOf(latest, group, latest.at)(latest.value) : null,
    nextValue,
    nextFormatted: nextValue === null ? null : writerOf(definition, group, at)(nextValue),
    updatedAt: latest?.at ?? null,
    revision,
  }
}

/** State of a sequence group that was never used, in a sequence that doesn't exist. */
export function unusedSequenceGroup(
  { namespace, sequence, group }: SequenceGroupKey,
  revision: number,
): SequenceGroupState {
  const definition = defaultSequenceDefinition('UTC')
  const nextValue = definition.startValue
  return {
    namespace,
    sequence,
    group,
    lastValue: null,
    lastFormatted: null,
    nextValue,
    // The default format has no date.
    nextFormatted: writerOf(definition, group, new Date(0))(nextValue),
    updatedAt: null,
    revision,
  }
}
