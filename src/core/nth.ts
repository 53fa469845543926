import { type Counters, openCounters } from './counters/counters.ts'
import { type NamespaceStore, type Namespaces, openNamespaces } from './counters/namespaces.ts'
import type { CounterStore } from './counters/store.ts'
import { openGroupCommit } from './groupCommit/groupCommit.ts'
import type { PendingCallsOptions } from './groupCommit/pendingCalls.ts'
import type { Writer } from './groupCommit/writer.ts'
import { openSequences, type Sequences } from './sequences/sequences.ts'
import type { SequenceStore } from './sequences/store.ts'

/** The operations of Nth, independent of storage and API. */
export interface Nth {
  counters: Counters
  namespaces: Namespaces
  sequences: Sequences
}

export interface Store {
  counters: CounterStore
  namespaces: NamespaceStore
  sequences: SequenceStore
  openWriter(): Writer
}

export interface NthOptions extends PendingCallsOptions {
  /** Called with failures that an operator should see. */
  onFault: (error: unknown) => void
  now?: () => Date
  /** A random number from 0 to below 1. */
  random: () => number
  /** How long idempotency keys are valid, in milliseconds. */
  keyTtlMs: number
}

export function openNth(
  store: Store,
  { now = () => new Date(), ...options }: NthOptions,
): Nth & { close(): Promise<void> } {
  const groupCommit = openGroupCommit({ ...options, now, openWriter: store.openWriter })
  const namespaces = openNamespaces(store.namespaces)
  const deadline = () => performance.now() + options.timeoutMs
  const retentionIn = async (namespace: string) => (await namespaces.read(namespace)).retention
  const means = { groupCommit, retentionIn, now, deadline }
  return {
    counters: openCounters({ ...means, store: store.counters }),
    namespaces,
    sequences: openSequences({ ...means, store: store.sequences }),
    close: groupCommit.close,
  }
}
