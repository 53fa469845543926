import type { Writer } from '../commit/batch.ts'
import { writeFence } from '../commit/fence.ts'
import { type GroupCommitOptions, openGroupCommit } from '../commit/groupCommit.ts'
import { openWriter } from '../commit/transaction.ts'
import { createFailoverDetector, Health } from '../mysql/health.ts'
import { type HostsOptions, openHosts } from '../mysql/hosts.ts'
import { type DatabaseOptions, openDatabase } from '../mysql/pool.ts'
import type { Targets } from '../mysql/settings.ts'
import type { Notices } from '../operations/log.ts'
import { DEFAULT_RETENTION } from '../rules/counter.ts'
import { unavailable } from '../rules/errors.ts'
import { type ApiKeys, openApiKeyStore, openApiKeys } from './apiKeys.ts'
import { batchReads } from './batches.ts'
import { openCounterStore, openCounters } from './counters.ts'
import { openJobs, scheduledJobs } from './jobs.ts'
import { openLeaderboardSync } from './leaderboard.ts'
import { Live } from './live.ts'
import { openLossWatch } from './lostCommits.ts'
import { openNamespaceStore } from './namespaces.ts'
import { openSequenceStore, openSequences } from './sequences.ts'

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

/** How long the server keeps the locks of a frozen process or a lost machine, in seconds. */
const IDLE_LIMIT_S = 3
/** Time limit of a round trip: twice the longest lock wait, as InnoDB checks its waiters once a second. */
const TRIP_LIMIT_MS = 4000
/** Time limit of a check, in milliseconds: shorter than probes usually wait. */
const CHECK_LIMIT_MS = 800

interface StoreOptions extends Pick<DatabaseOptions, 'timeLimitMs' | 'maxPending'>, HostsOptions {
  notices: Notices
  /** Whether the disk of the database has room, where that can be seen. */
  hasRoom?: (() => Promise<boolean>) | undefined
  /** Whether reads, on a cluster, may be older than what was committed on another node. Default: false. */
  eventualReads?: boolean | undefined
  /** Age at which results under idempotency keys are swept, in milliseconds. */
  keyTtlMs: number
  /** Whether it runs scheduled jobs (default). They use the database's clock: not for tests with another clock. */
  runsJobs?: boolean | undefined
}

type MySqlStore = ReturnType<typeof openStore>

/** Opens the MySQL store. What was opened from it must be closed first. */
export function openStore(
  targets: Targets,
  {
    notices,
    keyTtlMs,
    hasRoom,
    runsJobs = true,
    acceptsLostCommits,
    eventualReads = false,
    ...limits
  }: StoreOptions,
) {
  const health = new Health({ notices, hasRoom })
  const failover = createFailoverDetector(notices, acceptsLostCommits)
  const hosts = openHosts(targets, { acceptsLostCommits, notices })
  const shared = { ...limits, health, failover }
  const database = openDatabase(hosts, { ...shared, isCausal: !eventualReads })
  // Its own pool: changes that wait for a locked definition must not block readers.
  const definitions = openDatabase(hosts, { ...shared, isForChanges: true })
  const leaderboardSync = openLeaderboardSync(database, notices)
  const lossWatch = openLossWatch(database, failover, notices)
  const jobs = runsJobs ? openJobs(database, scheduledJobs(keyTtlMs), notices) : undefined

  return {
    apiKeys: openApiKeyStore(database, definitions),
    counters: openCounterStore(database, failover, leaderboardSync),
    namespaces: openNamespaceStore(database, definitions),
    sequences: openSequenceStore(database, definitions, failover),
    openWriter: (): Writer =>
      openWriter(hosts, {
        health,
        failover,
        timeLimitMs: TRIP_LIMIT_MS,
        idleLimitS: IDLE_LIMIT_S,
        onChanged: leaderboardSync.mark,
        notices,
      }),
    /** Throws UNAVAILABLE if the database can't be used. */
    async check(): Promise<void> {
      if (failover.obstacle) throw unavailable(failover.obstacle)
      if (health.isFull()) throw unavailable('The disk of the database is full.')
      const deadline = performance.now() + CHECK_LIMIT_MS
      // A database that could be read all the time, such as a read-only one, must be written to.
      if (health.isFailing()) return definitions.withRetry(writeFence, deadline)
      return database.withRetry(async (connection) => void (await connection.query('do 0')), deadline)
    },

    /** Learns, before the first request, whether commits were lost. Otherwise within a second. */
    lookForLosses: lossWatch.look,

    /** `open`, `busy`: connections, besides those of the writers. */
    state() {
      const pools = [database.state(), definitions.state()]
      const sum = (what: 'open' | 'busy') => pools.reduce((total, pool) => total + pool[what], 0)
      return {
        isAvailable: !health.isFailing() && failover.obstacle === undefined,
        open: sum('open'),
        busy: sum('busy'),
      }
    },

    async close() {
      await Promise.all([jobs?.close(), lossWatch.close()])
      await leaderboardSync.close()
      await Promise.all([database.close(), definitions.close()])
      hosts.close()
    },
  }
}
