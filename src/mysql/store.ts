import type { Store } from '../core/nth.ts'
import { openCounterStore } from './counters.ts'
import { type DatabaseOptions, openDatabase } from './database.ts'
import { openJobs } from './jobs.ts'
import { openLeaderboardSync } from './leaderboardSync.ts'
import { openNamespaceStore } from './namespaces.ts'
import { openOrigin } from './origin.ts'
import { openNotes } from './reachability.ts'
import { openSequenceStore } from './sequences.ts'
import type { StoredRow } from './storedRow.ts'
import type { Target } from './target.ts'
import { openWriter } from './writer.ts'

/** How long the server keeps the locks of a process that is frozen, or whose machine was lost, in seconds. */
const IDLE_LIMIT_S = 3
/** Twice what waiting for a lock takes at most: InnoDB looks at its waiters once a second. */
const TRIP_LIMIT_MS = 4000
/** How many definitions of sequences and namespaces are changed at a time. */
const DEFINITIONS_AT_ONCE = 2

export interface StoreOptions extends Pick<DatabaseOptions, 'timeLimitMs' | 'maxPending'> {
  /** Told with the reason when the database goes out of reach, and without one when it is back. */
  onReachable: (reason?: unknown) => void
  /** Told of failures that an operator should see. */
  onFault: (error: unknown) => void
  /** How old what was done under an idempotency key is when it is swept, in milliseconds. */
  keyTtlMs: number
  /**
   * Whether this process takes part in what is done from time to time: sweeping, and looking for what others have left
   * to be listed by value. By the database's clock, so not where another clock is tried. On if left out.
   */
  runsJobs?: boolean | undefined
}

/** Everything that Nth keeps in a database. What was opened from it is closed first. */
export function openStore(
  target: Target,
  { onReachable, onFault, keyTtlMs, runsJobs = true, ...limits }: StoreOptions,
): Store<StoredRow> & { close(): Promise<void> } {
  const notes = openNotes(onReachable)
  const origin = openOrigin(onFault)
  const database = openDatabase(target, { ...limits, notes, origin })
  // Apart from the others: who waits for a definition that somebody has locked must not keep readers waiting.
  const definitions = openDatabase(target, {
    ...limits,
    notes,
    origin,
    connections: DEFINITIONS_AT_ONCE,
    isForChanges: true,
  })
  const leaderboardSync = openLeaderboardSync(database, { onFault, scans: runsJobs })
  const jobs = runsJobs ? openJobs(database, { keyTtlMs, onFault }) : undefined

  return {
    counters: openCounterStore(database, origin, leaderboardSync),
    namespaces: openNamespaceStore(database, definitions),
    sequences: openSequenceStore(database, definitions, origin),
    openWriter: () =>
      openWriter(target, {
        note: notes.connecting,
        noteWrites: notes.writing,
        origin,
        timeLimitMs: TRIP_LIMIT_MS,
        idleLimitS: IDLE_LIMIT_S,
        onChanged: leaderboardSync.note,
        onFault,
      }),
    async close() {
      await jobs?.close()
      await leaderboardSync.close()
      await Promise.all([database.close(), definitions.close()])
    },
  }
}
