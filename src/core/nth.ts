import { type CounterStore, type Counters, openCounters } from './counters.ts'
import { openSequences, type SequenceStore, type Sequences } from './sequences.ts'

/** What Nth can do, without saying where it is kept or how it is asked. */
export interface Nth {
  counters: Counters
  sequences: Sequences
}

/** Everything that Nth keeps. */
export interface Store {
  counters: CounterStore
  sequences: SequenceStore
}

export function openNth(store: Store, now: () => Date = () => new Date()): Nth {
  return { counters: openCounters(store.counters, now), sequences: openSequences(store.sequences, now) }
}
