import type { Store } from '../core/nth.ts'
import { openCounterStore } from './counters.ts'
import type { CountingRow } from './counting.ts'
import { type DatabaseOptions, openDatabase } from './database.ts'
import { openLane } from './lane.ts'
import { openNote } from './reachability.ts'
import { openSequenceStore } from './sequences.ts'
import type { Target } from './target.ts'

/** How long the server keeps the locks of a process that is frozen, or whose machine was lost, in seconds. */
const IDLE_LIMIT_S = 3
/** Twice what waiting for a lock takes at most: InnoDB looks at its waiters once a second. */
const TRIP_LIMIT_MS = 4000

export interface StoreOptions extends Omit<DatabaseOptions, 'note'> {
  /** Told with the reason when the database goes out of reach, and without one when it is back. */
  onReachable: (reason?: unknown) => void
}

/** Everything that Nth keeps in a database. What was opened from it is closed first. */
export function openStore(
  target: Target,
  { onReachable, ...limits }: StoreOptions,
): Store<CountingRow> & { close(): Promise<void> } {
  const note = openNote(onReachable)
  const database = openDatabase(target, { ...limits, note })
  return {
    counters: openCounterStore(database),
    sequences: openSequenceStore(database),
    openLane: () => openLane(target, { note, timeLimitMs: TRIP_LIMIT_MS, idleLimitS: IDLE_LIMIT_S }),
    close: database.close,
  }
}
