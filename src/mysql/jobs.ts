import { NthError } from '../core/errors.ts'
import type { Database } from './connections/database.ts'
import { sweepPeriods, timeOf } from './counters/cleanup.ts'
import { sweepKeys } from './flush/idempotencyKeys.ts'
import { openScheduledJob } from './job.ts'
import { sweepSequences } from './sequences/cleanup.ts'

/** Interval between sweeps of old idempotency keys. */
const SWEEP_EVERY_MS = 60_000
/** Interval between sweeps of counters' periods, and of sequences. */
const SWEEP_ALL_EVERY_S = 3600

export interface JobsOptions {
  /** Age at which results under idempotency keys are swept, in milliseconds. */
  keyTtlMs: number
  /** Called with failures that an operator should see. */
  onFault: (error: unknown) => void
}

/** Background jobs of a process: sweeps of expired data, by the database's clock. */
export function openJobs(database: Database, { keyTtlMs, onFault }: JobsOptions): { close(): Promise<void> } {
  const keySweeper = setInterval(
    () => void sweepKeys(database, keyTtlMs).catch(report),
    SWEEP_EVERY_MS,
  ).unref()
  const periodSweeper = openScheduledJob(database, {
    name: 'sweep periods',
    everyS: SWEEP_ALL_EVERY_S,
    work: async (mayGoOn) => sweepPeriods(database, await timeOf(database), mayGoOn),
    // Including timeouts, which are reported nowhere else.
    onFailure: onFault,
  })
  const sequenceSweeper = openScheduledJob(database, {
    name: 'sweep sequences',
    everyS: SWEEP_ALL_EVERY_S,
    work: async (mayGoOn) => sweepSequences(database, await timeOf(database), mayGoOn),
    onFailure: onFault,
  })

  function report(error: unknown): void {
    // An unreachable database is reported elsewhere.
    if (!(error instanceof NthError)) onFault(error)
  }

  return {
    async close() {
      clearInterval(keySweeper)
      await Promise.all([periodSweeper.close(), sequenceSweeper.close()])
    },
  }
}
