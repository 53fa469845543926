import { SYSTEM_CLOCK as clock } from '../commit/clock.ts'
import { type Fence, writeFence } from '../commit/fence.ts'
import { type GroupCommitOptions, openGroupCommit } from '../commit/groupCommit.ts'
import { openWriter } from '../commit/transaction.ts'
import { createFailoverDetector, Health } from '../mysql/health.ts'
import { Hosts } from '../mysql/hosts.ts'
import { Database } from '../mysql/pool.ts'
import { clockFault } from '../mysql/ready.ts'
import { openSession } from '../mysql/session.ts'
import type { Targets } from '../mysql/settings.ts'
import { JOINED } from '../mysql/slots.ts'
import { unavailable } from '../rules/errors.ts'
import { ALL_TIME } from '../rules/leaderboards.ts'
import { openApiKeys } from './apiKeys.ts'
import { openCounterRows } from './counterRows.ts'
import { openCounters } from './counters.ts'
import { openHolds } from './holds.ts'
import { openJobs, sweeps } from './jobs.ts'
import { openLeaderboard } from './leaderboard.ts'
import { leaderboardJobs } from './leaderboardSync.ts'
import { Live, MAX_LEADERS } from './live.ts'
import { openLossWatch } from './lostCommits.ts'
import { openNamespaces } from './namespaces.ts'
import { openSequenceGroupRows, openSequences } from './sequences.ts'
import { openTableSizes } from './tableSizes.ts'
import { openTrustedDocuments } from './trustedDocuments.ts'

/** The operations of Nth, independent of the API. */
export type Nth = Omit<ReturnType<typeof openNth>, 'close'>

interface NthOptions
  extends Omit<GroupCommitOptions, 'openWriter' | 'now' | 'clock' | 'health' | 'onApplied'> {
  now?: (() => Date) | undefined
  /** Whether it works on a database that lost commits, too: only for what makes up for the loss. Default: false. */
  worksDespiteLoss?: boolean | undefined
  /** Whether the disk of the database has room, where that can be seen. */
  hasRoom?: (() => Promise<boolean>) | undefined
  /** Whether reads, on a cluster, may be older than what was committed on another node. Default: false. */
  eventualReads?: boolean | undefined
  /** Whether it runs scheduled jobs (default). They use the database's clock: not for tests with another clock. */
  runsJobs?: boolean | undefined
  /** Whether it copies changed counters to the leaderboards (default). Otherwise, the job at the next start does it. */
  copiesToLeaderboards?: boolean | undefined
  /** The age up to which reads of leaderboards take a copy, in milliseconds. Default: a second. */
  leaderboardAgeMs?: number | undefined
  /** Maximum memory of cached rows, in bytes, for counters and for sequence groups each. Default: an eighth of the heap. */
  rowCacheBytes?: number | undefined
}

/** How long the server keeps the locks of a frozen process or a lost machine, in seconds. */
const IDLE_LIMIT_S = 3
/** Time limit of a round trip: twice the longest lock wait, as InnoDB checks its waiters once a second. */
const TRIP_LIMIT_MS = 4000

export function openNth(targets: Targets, { now = () => new Date(), ...options }: NthOptions) {
  const { notices, hasRoom, worksDespiteLoss, timeoutMs: timeLimitMs, maxPending } = options
  const failover = createFailoverDetector(notices, worksDespiteLoss)
  const fences = new Set<Fence>()
  const hosts = new Hosts(targets, notices)
  const health = new Health({
    notices,
    hasRoom,
    openProbe() {
      const probe = new Database(hosts, { timeLimitMs, maxPending, failover })
      return {
        async read(deadline) {
          const fault = await probe.withRetry(JOINED, clockFault, deadline)
          if (fault) throw unavailable(fault)
        },
        write: (deadline) => probe.withRetry(JOINED, writeFence, deadline),
        close: probe.close,
      }
    },
  })
  const shared = { timeLimitMs, maxPending, health, failover }
  const database = new Database(hosts, { ...shared, isCausal: !options.eventualReads })
  // A separate pool: changes that wait for a locked definition must not block readers.
  const definitions = new Database(hosts, { ...shared, isForChanges: true })
  const tableSizes = openTableSizes(database)
  const leaderboard = openLeaderboard(database, now, notices, options.leaderboardAgeMs)
  const lossWatch = openLossWatch(database, failover, notices)
  const { runsJobs = true, copiesToLeaderboards = true, keyTtlMs } = options
  const jobs = runsJobs ? openJobs(database, [...sweeps(keyTtlMs), ...leaderboardJobs], notices) : undefined
  const apiKeys = openApiKeys(database, definitions, now, notices)
  const namespaces = openNamespaces(database, definitions)
  const live = new Live({
    read: {
      counter: (keys) => counters.readEach(keys),
      sequenceGroup: (keys) => sequences.readEachSequenceGroup(keys),
      reservation: (keys) => sequences.readEachReservation(keys),
    },
    async readLeaders({ namespace, order, period }) {
      const { filled, timeZone } = await namespaces.read(namespace)
      if (period && !filled.includes(period)) return null
      const periodKey = period ? leaderboard.periodKey(period, timeZone) : ALL_TIME
      const page = { order, periodKey, limit: MAX_LEADERS, fromEnd: false }
      return { entries: await leaderboard.list(namespace, page) }
    },
    retentionIn: namespaces.read,
    now,
    notices,
  })
  const groupCommit = openGroupCommit({
    ...options,
    now,
    clock,
    health,
    onApplied: live.mark.bind(live),
    openWriter: () =>
      openWriter(hosts, {
        clock,
        fences,
        openSession,
        failover,
        timeLimitMs: TRIP_LIMIT_MS,
        idleLimitS: IDLE_LIMIT_S,
        onChanged: copiesToLeaderboards ? leaderboard.mark : () => undefined,
      }),
  })
  const dependencies = { database, groupCommit, retentionIn: namespaces.read, now }
  const counterRows = openCounterRows(database, failover, options.rowCacheBytes)
  const groupRows = openSequenceGroupRows(database, failover, options.rowCacheBytes)
  const counters = openCounters({ ...dependencies, rows: counterRows })
  const holds = openHolds({ ...dependencies, rows: counterRows })
  const sequences = openSequences({ ...dependencies, rows: groupRows, definitions })

  /**
   * Checks whether the database can be used, or only is too busy.
   *
   * @throws {NthError} UNAVAILABLE, with the reason
   */
  async function checkDatabase(): Promise<{ isBusy: boolean }> {
    if (failover.obstacle) throw unavailable(`Database unavailable: lost commits. ${failover.obstacle}`)
    const hasSucceeded = await health.check()
    return { isBusy: !hasSucceeded || database.isBusy }
  }

  return {
    apiKeys,
    counters,
    holds,
    leaderboard,
    live,
    namespaces,
    sequences,
    trustedDocuments: openTrustedDocuments(database, definitions),

    checkDatabase,

    /** Learns, before the first request, whether commits were lost. Otherwise within a second. */
    lookForLosses: lossWatch.look,

    /** How many changes wait, and how many names are watched, for metrics. */
    state: () => ({ pending: groupCommit.pending, watched: live.size }),

    /** The state of the database, for metrics. `open`, `busy`: connections, without those for writers and checks. */
    async databaseState() {
      const checked = await checkDatabase().catch(() => undefined)
      const [reads, changes] = [database.state(), definitions.state()]
      const [open, busy] = [reads.open + changes.open, reads.busy + changes.busy]
      return { isAvailable: checked !== undefined, open, busy, tables: tableSizes() }
    },

    async close(): Promise<void> {
      live.close()
      await Promise.all([apiKeys.close(), groupCommit.close(), jobs?.close(), lossWatch.close()])
      await leaderboard.close()
      await Promise.all([database.close(), definitions.close(), health.close()])
      hosts.close()
    },
  }
}
