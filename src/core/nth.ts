import { type ApiKeyStore, type ApiKeys, openApiKeys } from './access/apiKeys.ts'
import { openCounters } from './counters/counters.ts'
import { type NamespaceStore, openNamespaces } from './counters/namespaces.ts'
import type { CounterStore } from './counters/store.ts'
import { type GroupCommitOptions, openGroupCommit } from './groupCommit/groupCommit.ts'
import type { Writer } from './groupCommit/writer.ts'
import { openSequences } from './sequences/sequences.ts'
import type { SequenceStore } from './sequences/store.ts'

/** The operations of Nth, independent of storage and API. */
export type Nth = Omit<ReturnType<typeof openNth>, 'close' | 'apiKeys'> & {
  apiKeys: Omit<ApiKeys, 'close'>
}

export interface Store {
  apiKeys: ApiKeyStore
  counters: CounterStore
  namespaces: NamespaceStore
  sequences: SequenceStore
  openWriter(): Writer
}

type NthOptions = Omit<GroupCommitOptions, 'openWriter' | 'now'> & { now?: () => Date }

export function openNth(store: Store, { now = () => new Date(), ...options }: NthOptions) {
  const groupCommit = openGroupCommit({ ...options, now, openWriter: store.openWriter })
  const namespaces = openNamespaces(store.namespaces)
  const deadline = () => performance.now() + options.timeoutMs
  const retentionIn = async (namespace: string) => (await namespaces.read(namespace)).retention
  const apiKeys = openApiKeys({ store: store.apiKeys, now, onFault: options.onFault })
  const means = { groupCommit, retentionIn, now, deadline }
  return {
    apiKeys,
    counters: openCounters({ ...means, store: store.counters }),
    namespaces,
    sequences: openSequences({ ...means, store: store.sequences }),
    async close(): Promise<void> {
      await Promise.all([apiKeys.close(), groupCommit.close()])
    },
  }
}
