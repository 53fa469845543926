import { NthError } from '../../core/errors.ts'
import type { Notices } from '../../core/notices.ts'
import type { CounterRow } from '../../core/rows.ts'
import type { Database } from '../connections/database.ts'
import { withTimeout } from '../connections/timeout.ts'
import { copyToLeaderboard } from './leaderboardCopy.ts'

export type LeaderboardSync = ReturnType<typeof openLeaderboardSync>

/** Pause between two copies, in milliseconds. */
const DELAY = { min: 1000, max: 5000 }
/** Copying takes at most a twentieth of the time, as far as the longest pause allows. */
const PAUSE_PER_COPY = 19
/** Maximum wait for a copy, on reading and on closing. */
const COPY_TIMEOUT_MS = 1000

/**
 * Keeps the table `leaderboard` up to date, which holds counters sorted by value and by last change. Changed rows are
 * copied to it in batches, once a second or when a leaderboard is read: an index on the values themselves would make
 * each change 10 to 30 % more expensive. If thousands change every second, copies are less frequent: once a second, they
 * took a seventh of the changes per second of 10 000 counters. A scheduled job finds rows that a killed process did not
 * copy.
 *
 * At most one copy runs and one waits. All requests in the meantime share the waiting one.
 */
export function openLeaderboardSync(database: Database, notices: Notices) {
  const marked = new Set<number>()
  let timer: NodeJS.Timeout | undefined
  let isClosed = false
  let tookMs = 0
  let running: Promise<void> | undefined
  let waiting: Promise<void> | undefined

  function refresh(): Promise<void> {
    if (marked.size > 0) waiting ??= copyAfter(running)
    return waiting ?? running ?? Promise.resolve()
  }

  async function copyAfter(previous: Promise<void> | undefined): Promise<void> {
    await previous?.catch(() => undefined)
    const own = waiting
    waiting = undefined
    running = own
    clearTimeout(timer)
    timer = undefined
    const ids = [...marked]
    marked.clear()
    const startedAt = performance.now()
    try {
      await copyToLeaderboard(database, ids)
    } catch (error) {
      for (const id of ids) marked.add(id)
      copyLater()
      throw error
    } finally {
      tookMs = performance.now() - startedAt
      if (running === own) running = undefined
    }
  }

  function copyLater(): void {
    if (isClosed) return
    timer ??= setTimeout(() => {
      timer = undefined
      refresh().catch((error) => {
        // An unreachable database is reported elsewhere.
        if (!isClosed && !(error instanceof NthError)) notices.fault(error)
      })
    }, pauseMs(tookMs)).unref()
  }

  const refreshInTime = () => withTimeout(COPY_TIMEOUT_MS, refresh()).catch(() => undefined)

  return {
    /** Copies the marked rows, if that takes less than a second. */
    refresh: refreshInTime,

    /** Marks changed rows for the next copy. */
    mark(rows: readonly CounterRow[]): void {
      for (const { id } of rows) marked.add(id)
      if (marked.size > 0) copyLater()
    },

    async close(): Promise<void> {
      isClosed = true
      clearTimeout(timer)
      await refreshInTime()
    },
  }
}

/** Pause after a copy that took so long, in milliseconds. */
export function pauseMs(tookMs: number): number {
  return Math.min(Math.max(PAUSE_PER_COPY * tookMs, DELAY.min), DELAY.max)
}
