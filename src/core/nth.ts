import type { MySqlStore } from '../mysql/store.ts'
import { type ApiKeys, openApiKeys } from './access/apiKeys.ts'
import { openCounters, openNamespaces } from './counters/counters.ts'
import { type GroupCommitOptions, openGroupCommit } from './groupCommit/groupCommit.ts'
import { type Live, openLive } from './live/live.ts'
import { openSequences } from './sequences/sequences.ts'

/** The operations of Nth, independent of the API. */
export type Nth = Omit<ReturnType<typeof openNth>, 'close' | 'apiKeys' | 'live' | 'state'> & {
  apiKeys: Omit<ApiKeys, 'close'>
  live: Pick<Live, 'open'>
}

type NthOptions = Omit<GroupCommitOptions, 'openWriter' | 'now' | 'onApplied'> & { now?: () => Date }

export function openNth(store: MySqlStore, { now = () => new Date(), ...options }: NthOptions) {
  const namespaces = openNamespaces(store.namespaces)
  const retentionIn = async (namespace: string) => (await namespaces.read(namespace)).retention
  const live = openLive({
    read: {
      counter: (keys) => counters.readMany(keys),
      sequenceGroup: (keys) => sequences.readSequenceGroups(keys),
      reservation: (keys) => sequences.reservations(keys),
    },
    retentionIn,
    now,
    notices: options.notices,
  })
  const groupCommit = openGroupCommit({ ...options, now, openWriter: store.openWriter, onApplied: live.mark })
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
