import type { ResultSetHeader } from 'mysql2'
import type { Notices } from '../core/notices.ts'
import type { JobContext } from '../mysql/batches.ts'
import { withTimeout } from '../mysql/connections/timeout.ts'
import { sweepPeriods } from '../mysql/counters/cleanup.ts'
import { sweepFences, sweepKeys } from '../mysql/flush/cleanup.ts'
import { bytes, EPOCH, integer, list } from '../mysql/literals.ts'
import type { Database } from '../mysql/pool.ts'
import { sweepSequences } from '../mysql/sequences/cleanup.ts'
import { select } from '../mysql/sql.ts'
import { NthError } from '../rules/errors.ts'
import { scanLeaderboard } from './leaderboard.ts'

/** A job for one of all processes that share the database: whichever finds it due first. */
export interface ScheduledJob {
  /** Its row in the table `scheduled_job`; must not change. */
  name: string
  /** Interval in seconds, by the database's clock. */
  everyS: number
  /** Whether it is also due if it has not run since this process started. */
  isDueAtStart?: boolean
  run: (context: JobContext) => Promise<unknown>
}

/** @param keyTtlMs age at which results under idempotency keys are deleted, in milliseconds */
export function scheduledJobs(keyTtlMs: number): ScheduledJob[] {
  return [
    { name: 'sweep keys', everyS: 60, run: (context) => sweepKeys(context, keyTtlMs) },
    { name: 'sweep fences', everyS: 3600, run: sweepFences },
    { name: 'sweep periods', everyS: 3600, run: sweepPeriods },
    { name: 'sweep sequences', everyS: 3600, run: sweepSequences },
    // At start, as the process that this one replaces may have been killed.
    { name: 'scan leaderboard', everyS: 600, isDueAtStart: true, run: scanLeaderboard },
  ]
}

/** Average interval between checks. It varies, so that processes started together check at different times. */
const CHECK_EVERY_MS = 15_000
/** Spread of the first checks of processes started together. */
const FIRST_CHECK_WITHIN_MS = 2000
/** Maximum wait for running jobs, on closing. */
const CLOSE_TIMEOUT_MS = 1000

/** Runs scheduled jobs when they are due, one after another. */
export function openJobs(database: Database, jobs: readonly ScheduledJob[], notices: Notices) {
  const openedAt = performance.now()
  let isFirst = true
  let isClosed = false
  let checking: Promise<void> | undefined
  let timer = checkAfter(Math.random() * FIRST_CHECK_WITHIN_MS)

  function checkAfter(delayMs: number): NodeJS.Timeout {
    return setTimeout(() => {
      checking = check()
    }, delayMs).unref()
  }

  async function check(): Promise<void> {
    const ageS = Math.floor((performance.now() - openedAt) / 1000)
    const claims = jobs.map(({ name, everyS, isDueAtStart }) => ({
      name,
      everyS: isFirst && isDueAtStart ? Math.min(ageS, everyS) : everyS,
    }))
    try {
      const due = await claimDue(database, claims)
      isFirst = false
      for (const job of jobs) if (due.has(job.name) && !isClosed) await run(job)
    } catch (error) {
      // An unreachable database is reported elsewhere.
      if (!isClosed && !(error instanceof NthError)) notices.fault(error)
    }
    if (!isClosed) timer = checkAfter(CHECK_EVERY_MS * (0.5 + Math.random()))
  }

  async function run(job: ScheduledJob): Promise<void> {
    try {
      await job.run({ database, now: await timeOf(database), shouldContinue: () => !isClosed })
    } catch (error) {
      // Including timeouts, which are reported nowhere else.
      if (!isClosed) notices.fault(error)
    }
  }

  return {
    async close(): Promise<void> {
      isClosed = true
      clearTimeout(timer)
      if (checking) await withTimeout(CLOSE_TIMEOUT_MS, checking).catch(() => undefined)
    },
  }
}

/** The names of the jobs that are due. Each is returned to one caller only, until it is due again. */
export async function claimDue(database: Database, jobs: readonly Pick<ScheduledJob, 'name' | 'everyS'>[]) {
  const due = new Set<string>()
  if (jobs.length === 0) return due
  await database.withRetry(async (connection) => {
    await connection.query(
      `insert ignore into scheduled_job (name, started_at)
       values ${list(jobs, ({ name }) => `(${bytes(name)}, ${EPOCH})`)}`,
    )
    for (const { name, everyS } of jobs) {
      const [{ affectedRows }] = await connection.query<ResultSetHeader>(
        `update scheduled_job
            set started_at = utc_timestamp()
          where name = ${bytes(name)} and started_at <= utc_timestamp() - interval ${integer(everyS)} second`,
      )
      if (affectedRows === 1) due.add(name)
    }
  })
  return due
}

async function timeOf(database: Database): Promise<Date> {
  const statement = 'select utc_timestamp(3) as now'
  const [row] = await database.withRetry((connection) => select<{ now: Date }>(connection, statement))
  if (!row) throw new Error('The database returned no time')
  return row.now
}
