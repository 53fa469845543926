import { isTooLarge, NthError } from '../../../core/errors.ts'
import type { Entry } from '../../../core/transfer/entries.ts'
import type { Options, Result } from '../../../core/transfer/outcome.ts'
import { type Connection, inTransaction, openDatabase } from '../../connections/database.ts'
import { ER, failureOf, hasErrorNumber } from '../../connections/errors.ts'
import { createFailoverDetector } from '../../connections/failover.ts'
import { silentHealth } from '../../connections/health.ts'
import { openHosts } from '../../connections/hosts/hosts.ts'
import type { Target } from '../../connections/target.ts'
import { select } from '../../select.ts'
import { ChangedMeanwhileError, type ImportContext } from './context.ts'
import { importCounters } from './counters/importCounters.ts'
import { importApiKeys } from './importApiKeys.ts'
import { importIdempotencyKeys } from './importIdempotencyKeys.ts'
import { importNamespaces } from './importNamespaces.ts'
import { importGroups } from './sequences/importGroups.ts'
import { importReservations } from './sequences/importReservations.ts'
import { importSequences } from './sequences/importSequences.ts'

/** Time limit of a batch, with its retries after conflicts and lost connections. */
const TIME_LIMIT_MS = 120_000
/** How often a batch may find that another session has changed what it has read. */
const MAX_CHANGED_MEANWHILE = 100
/** After so long, a batch that only meets conflicts is divided. */
const DIVIDE_AFTER_MS = 2000

export type Importer = ReturnType<typeof openImporter>

/**
 * Applies entries while others count, each batch in one transaction that takes its locks in the order of the flushes.
 * An entry that was applied before changes nothing: so a batch may run twice, and an import may be repeated.
 */
export function openImporter(target: Target, options: Options & { isDryRun: boolean }) {
  const database = openDatabase(openHosts([target]), {
    timeLimitMs: TIME_LIMIT_MS,
    maxPending: 10,
    isForChanges: true,
    health: silentHealth(),
    failover: createFailoverDetector(() => undefined),
  })

  async function attempt(connection: Connection, entries: readonly Entry[]): Promise<Result[]> {
    for (let failures = 0; ; failures++) {
      try {
        return await inTransaction(connection, async () => {
          const [row] = await select<{ now: Date }>(connection, 'select utc_timestamp(3) as now')
          if (!row) throw new Error('The database returned no time')
          return applyBatch({ ...options, connection, now: row.now }, entries)
        })
      } catch (error) {
        // Another session has created, deleted or redefined one of them at the same time: it is found now.
        const isFound = error instanceof ChangedMeanwhileError || hasErrorNumber(error, ER.DUP_ENTRY)
        if (!isFound || failures === MAX_CHANGED_MEANWHILE) throw error
      }
    }
  }

  /**
   * On a cluster, each change at another node aborts a transaction that holds the same row. One with a counter that is
   * changed all the time gets through only if it is short. What is too large for one statement is divided as well.
   */
  async function apply(entries: readonly Entry[]): Promise<Result[]> {
    const work = (connection: Connection) => attempt(connection, entries)
    if (entries.length <= 1) return database.withRetry(work)
    try {
      return await database.withRetry(work, performance.now() + DIVIDE_AFTER_MS)
    } catch (error) {
      if (!(error instanceof NthError)) throw error
      if (!isTooLarge(error) && failureOf(error.cause) !== 'conflict') return database.withRetry(work)
      const half = Math.ceil(entries.length / 2)
      return [...(await apply(entries.slice(0, half))), ...(await apply(entries.slice(half)))]
    }
  }

  return {
    /** Applies entries of one kind, each of other names. Returns a result for each. */
    apply,
    close: database.close,
  }
}

function applyBatch(context: ImportContext, entries: readonly Entry[]): Promise<Result[]> {
  // All entries of a batch are of one kind.
  const of = <E extends Entry>(type: E['type']) => entries.filter((entry): entry is E => entry.type === type)
  switch (entries[0]?.type) {
    case 'namespace':
      return importNamespaces(context, of('namespace'))
    case 'counter':
      return importCounters(context, of('counter'))
    case 'counterHistory':
      return importCounters(context, of('counterHistory'))
    case 'sequence':
      return importSequences(context, of('sequence'))
    case 'sequenceGroup':
      return importGroups(context, of('sequenceGroup'))
    case 'sequenceGroupPeriods':
      return importGroups(context, of('sequenceGroupPeriods'))
    case 'reservation':
      return importReservations(context, of('reservation'))
    case 'apiKey':
      return importApiKeys(context, of('apiKey'))
    case 'idempotencyKey':
      return importIdempotencyKeys(context, of('idempotencyKey'))
    default:
      return Promise.resolve([])
  }
}
