import { type GroupCommitOptions, openGroupCommit } from '../commit/groupCommit.ts'
import { type ApiKeys, openApiKeys } from '../repository/apiKeys.ts'
import { Live } from '../repository/live.ts'
import type { MySqlStore } from '../repository/nth.ts'
import { openCounters } from './counters/counters.ts'
import { DEFAULT_RETENTION } from './counters/definition.ts'
import { batchReads } from './eventLoop/batchReads.ts'
import { openSequences } from './sequences/sequences.ts'

/** The operations of Nth, independent of the API. */
export type Nth = Omit<ReturnType<typeof openNth>, 'close' | 'apiKeys' | 'live' | 'state'> & {
  apiKeys: Omit<ApiKeys, 'close'>
  live: Pick<Live, 'open' | 'watch' | 'closeFeed'>
}

type NthOptions = Omit<GroupCommitOptions, 'openWriter' | 'now' | 'onApplied'> & { now?: () => Date }

export function openNth(store: MySqlStore, { now = () => new Date(), ...options }: NthOptions) {
  const { read: readNamespace } = batchReads(
    ({ name }: { name: string }) => name,
    store.namespaces.read,
    ({ name }) => ({ name, retention: DEFAULT_RETENTION }),
  )
  const namespaces = { ...store.namespaces, read: (name: string) => readNamespace({ name }) }
  const retentionIn = async (namespace: string) => (await namespaces.read(namespace)).retention
  const live = new Live({
    read: {
      counter: (keys) => counters.readMany(keys),
      sequenceGroup: (keys) => sequences.readSequenceGroups(keys),
      reservation: (keys) => sequences.reservations(keys),
    },
    retentionIn,
    now,
    notices: options.notices,
  })
  const groupCommit = openGroupCommit({
    ...options,
    now,
    openWriter: store.openWriter,
    onApplied: live.mark.bind(live),
  })
  const deadline = () => performance.now() + options.timeoutMs
  const apiKeys = openApiKeys(store.apiKeys, now, options.notices)
  const means = { groupCommit, retentionIn, now, deadline }
  const counters = openCounters({ ...means, store: store.counters })
  const sequences = openSequences({ ...means, store: store.sequences })
  return {
    apiKeys,
    checkDatabase: store.check,
    counters,
    live,
    namespaces,
    sequences,
    /** Its state, for metrics. */
    state: () => ({ pending: groupCommit.pending, watched: live.size }),
    async close(): Promise<void> {
      live.close()
      await Promise.all([apiKeys.close(), groupCommit.close()])
    },
  }
}
