import { isDeepStrictEqual } from 'node:util'
import { type CounterKey, type CounterState, keyText } from '../counters/state.ts'
import type { Reservation } from '../sequences/state.ts'
import { type SequenceGroupKey, type SequenceGroupState, sequenceGroupKeyText } from '../sequences/store.ts'

/** What can be watched. */
export type Topic =
  | { kind: 'counter'; key: CounterKey }
  | { kind: 'sequenceGroup'; key: SequenceGroupKey }
  | { kind: 'reservation'; key: { token: string } }

export type TopicState = CounterState | SequenceGroupState | Reservation

/** A topic that is watched, with its state as last read. */
export interface Watched {
  readonly topic: Topic
  /** Null: it doesn't exist. An error: it can't be read. Undefined: not read yet. */
  state: TopicState | Error | null | undefined
}

/** A topic as one string. */
export function topicText({ kind, key }: Topic): string {
  if (kind === 'counter') return `c${keyText(key)}`
  return kind === 'sequenceGroup' ? `g${sequenceGroupKeyText(key)}` : `r${key.token}`
}

/**
 * Whether two states of a topic differ in anything but their revision: what was never written has a new one at each read,
 * and what was changed by hand may have the old one.
 */
export function isChanged(before: TopicState, after: TopicState): boolean {
  for (const key in after) {
    // States of one topic have the same properties.
    const name = key as keyof TopicState
    if (key !== 'revision' && after[name] !== before[name] && !isDeepStrictEqual(after[name], before[name]))
      return true
  }
  return false
}

/** Whether a state is older than one that was read before: it comes from a server that is behind. */
export function isOlder(after: TopicState, before: TopicState): boolean {
  return 'revision' in after && 'revision' in before && after.revision < before.revision
}
