import { NthError } from '../core/errors.ts'
import type { Database } from './database.ts'
import { sweepKeys } from './keys.ts'
import { openScheduledJob } from './scheduledJob.ts'
import { sweepSequences } from './sequenceSweep.ts'
import { sweepPeriods, timeOf } from './sweeping.ts'

/** Between two sweeps of old idempotency keys. */
const SWEEP_EVERY_MS = 60_000
/** Between two sweeps of counters' periods, and of what sequences have left. */
const SWEEP_ALL_EVERY_S = 3600

export interface JobsOptions {
  /** How old what was done under an idempotency key is when it is swept, in milliseconds. */
  keyTtlMs: number
  /** Told of failures that an operator should see. */
  onFault: (error: unknown) => void
}

/** What a process does in the background: it sweeps what is no longer to be kept, by the database's clock. */
export function openJobs(database: Database, { keyTtlMs, onFault }: JobsOptions): { close(): Promise<void> } {
  const keySweeper = setInterval(
    () => void sweepKeys(database, keyTtlMs).catch(report),
    SWEEP_EVERY_MS,
  ).unref()
  const periodSweeper = openScheduledJob(database, {
    name: 'sweep periods',
    everyS: SWEEP_ALL_EVERY_S,
    work: async (mayGoOn) => sweepPeriods(database, await timeOf(database), mayGoOn),
    // Also that it took too long, which nobody else would tell.
    onFailure: onFault,
  })
  const sequenceSweeper = openScheduledJob(database, {
    name: 'sweep sequences',
    everyS: SWEEP_ALL_EVERY_S,
    work: async (mayGoOn) => sweepSequences(database, await timeOf(database), mayGoOn),
    onFailure: onFault,
  })

  function report(error: unknown): void {
    // Where the database is out of reach, others say so.
    if (!(error instanceof NthError)) onFault(error)
  }

  return {
    async close() {
      clearInterval(keySweeper)
      await Promise.all([periodSweeper.close(), sequenceSweeper.close()])
    },
  }
}
