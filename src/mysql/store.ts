import { NthError } from '../core/errors.ts'
import type { Store } from '../core/nth.ts'
import { openChore } from './chore.ts'
import { openCounterStore } from './counters.ts'
import { type DatabaseOptions, openDatabase } from './database.ts'
import { sweepKeys } from './keys.ts'
import { openLane } from './lane.ts'
import { openNamespaceStore } from './namespaces.ts'
import { openRanking } from './ranking.ts'
import { openNotes } from './reachability.ts'
import { sweepSequences } from './sequenceSweep.ts'
import { openSequenceStore } from './sequences.ts'
import type { StoredRow } from './storedRow.ts'
import { sweepPeriods, timeOf } from './sweeping.ts'
import type { Target } from './target.ts'

/** How long the server keeps the locks of a process that is frozen, or whose machine was lost, in seconds. */
const IDLE_LIMIT_S = 3
/** Twice what waiting for a lock takes at most: InnoDB looks at its waiters once a second. */
const TRIP_LIMIT_MS = 4000
/** How many definitions of sequences and namespaces are changed at a time. */
const DEFINITIONS_AT_ONCE = 2
/** Between two sweeps of old idempotency keys. */
const SWEEP_EVERY_MS = 60_000
/** Between two sweeps of counters' periods, and of what sequences have left. */
const SWEEP_ALL_EVERY_S = 3600

export interface StoreOptions extends Pick<DatabaseOptions, 'timeLimitMs' | 'maxPending'> {
  /** Told with the reason when the database goes out of reach, and without one when it is back. */
  onReachable: (reason?: unknown) => void
  /** Told of failures that an operator should see. */
  onFault: (error: unknown) => void
  /** How old what was done under an idempotency key is when it is swept, in milliseconds. */
  keyTtlMs: number
}

/** Everything that Nth keeps in a database. What was opened from it is closed first. */
export function openStore(
  target: Target,
  { onReachable, onFault, keyTtlMs, ...limits }: StoreOptions,
): Store<StoredRow> & { close(): Promise<void> } {
  const notes = openNotes(onReachable)
  const database = openDatabase(target, { ...limits, notes })
  // Apart from the others: who waits for a definition that somebody has locked must not keep readers waiting.
  const definitions = openDatabase(target, {
    ...limits,
    notes,
    connections: DEFINITIONS_AT_ONCE,
    isForChanges: true,
  })
  const ranking = openRanking(database, onFault)
  const sweeper = setInterval(sweep, SWEEP_EVERY_MS).unref()

  const periodSweeper = openChore(database, {
    name: 'sweep periods',
    everyS: SWEEP_ALL_EVERY_S,
    work: async (mayGoOn) => sweepPeriods(database, await timeOf(database), mayGoOn),
    // Also that it took too long, which nobody else would tell.
    onFailure: onFault,
  })
  const sequenceSweeper = openChore(database, {
    name: 'sweep sequences',
    everyS: SWEEP_ALL_EVERY_S,
    work: async (mayGoOn) => sweepSequences(database, await timeOf(database), mayGoOn),
    onFailure: onFault,
  })

  function sweep(): void {
    sweepKeys(database, keyTtlMs).catch(report)
  }

  function report(error: unknown): void {
    // Where the database is out of reach, others say so.
    if (!(error instanceof NthError)) onFault(error)
  }

  return {
    counters: openCounterStore(database, ranking),
    namespaces: openNamespaceStore(database, definitions),
    sequences: openSequenceStore(database, definitions),
    openLane: () =>
      openLane(target, {
        note: notes.connecting,
        noteWrites: notes.writing,
        timeLimitMs: TRIP_LIMIT_MS,
        idleLimitS: IDLE_LIMIT_S,
        onChanged: ranking.note,
      }),
    async close() {
      clearInterval(sweeper)
      await Promise.all([periodSweeper.close(), sequenceSweeper.close()])
      await ranking.close()
      await Promise.all([database.close(), definitions.close()])
    },
  }
}
