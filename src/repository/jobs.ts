import type { ResultSetHeader } from 'mysql2'
import { RETENTION_DAYS } from '../commit/fence.ts'
import { PERIOD_CODES, parsePeriods, startSecond } from '../commit/periodStatements.ts'
import { codeOf } from '../commit/reservations.ts'
import { withTimeout } from '../mysql/errors.ts'
import type { Database } from '../mysql/pool.ts'
import { bytes, digest, EPOCH, groupBy, instant, integer, list, select, timeOf } from '../mysql/sql.ts'
import type { Notices } from '../operations/log.ts'
import { DAY_MS, LONGEST_MS, PERIODS, type Period } from '../rules/calendar.ts'
import { NthError } from '../rules/errors.ts'
import { BATCH, deleteFound, deleteWithParts, inBatches, type JobContext } from './batches.ts'
import { scanLeaderboard } from './leaderboard.ts'

/** A job for one of all processes that share the database: whichever finds it due first. */
interface ScheduledJob {
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
      await job.run({ database, now: await database.withRetry(timeOf), shouldContinue: () => !isClosed })
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

/** Counters per statement: takes a few milliseconds. */
const PAGE = 500

interface TrackedCounterRow {
  id: number
  periods: Buffer
}

/** Counters with the same periods. */
type RetentionGroup = readonly [TrackedCounterRow, ...TrackedCounterRow[]]

/**
 * Deletes history rows whose retention has ended. Runs in batches, each in its own transaction, over rows that nobody
 * writes any more, so no writer waits. Periods that ended less than a day ago are left alone.
 *
 * @throws the first failure, after it has continued with the other counters
 */
export async function sweepPeriods(context: JobContext): Promise<void> {
  const { database, shouldContinue } = context
  const failures: unknown[] = []
  const onFailure = (error: unknown) => void failures.push(error)
  for (let from = 0; shouldContinue(); ) {
    const counters = await database.withRetry((connection) =>
      select<TrackedCounterRow>(
        connection,
        `select id, periods
           from counter force index (primary)
          where id > ${integer(from)}
          order by id
          limit ${integer(PAGE)}`,
      ),
    )
    const groups = groupBy(counters, ({ periods }) => String(periods))
    for (const group of groups.values()) await sweepGroup(context, group).catch(onFailure)
    const last = counters.at(-1)
    if (!last) break
    from = last.id
  }
  await sweepDeleted(context).catch(onFailure)
  if (failures.length > 0) throw failures[0]
}

/** @throws if their periods can't be parsed */
async function sweepGroup(context: JobContext, counters: RetentionGroup): Promise<void> {
  const periods = parsePeriods(counters[0].periods.toString('latin1'))
  const ids = list(counters, ({ id }) => integer(id))
  for (const period of PERIODS) {
    const kept = periods.find((tracked) => tracked.period === period)
    const keepDays = kept ? kept.keepDays : 1
    if (keepDays === null) continue
    // A period that began before this instant ended at least so many days ago, in any time zone.
    await deleteTotals(context, ids, period, context.now.getTime() - keepDays * DAY_MS - LONGEST_MS[period])
  }
}

/** Deletes the history of deleted counters. Nobody writes it: ids are not reused. */
function sweepDeleted(context: JobContext): Promise<void> {
  const deleted = `select id from deleted_counter order by id limit ${integer(PAGE)}`
  return deleteWithParts(context, { find: deleted, table: 'deleted_counter' }, async (ids) => {
    for (const period of PERIODS) await deleteTotals(context, ids, period)
  })
}

/** Deletes the totals of counters, whose ids are a list, for periods that began before an instant, or all. */
function deleteTotals(context: JobContext, ids: string, period: Period, before?: number) {
  const isPast = before === undefined ? '' : ` and start < ${startSecond(before)}`
  const past = `select counter_id, start
       from counter_history force index (primary)
      where counter_id in (${ids}) and period = ${PERIOD_CODES[period]}${isPast}
      limit ${integer(BATCH)}`
  return deleteFound<Record<'counter_id' | 'start', number>>(
    context,
    past,
    ({ counter_id, start }) =>
      `delete from counter_history
        where counter_id = ${integer(counter_id)} and period = ${PERIOD_CODES[period]} and start = ${integer(start)}`,
  )
}

/** Retention of released and expired reservations without a number of their own, in days. */
const KEPT_DAYS = 30

/**
 * Deletes the rows of deleted sequences, and reservations that ended long ago without a number of their own. Runs in
 * batches, each in its own transaction, over rows that nobody writes any more.
 */
export async function sweepSequences(context: JobContext): Promise<void> {
  const before = context.now.getTime() - KEPT_DAYS * DAY_MS
  for (const state of ['RELEASED', 'EXPIRED'] as const) {
    const old = `select token
       from reservation force index (reservation_closed)
      where state = ${codeOf(state)} and not is_free and closed_at < ${instant(before)}
      limit ${BATCH}`
    await deleteFound(context, old, deleteReservation)
  }
  const deleted = 'select id from deleted_sequence order by id limit 1'
  await deleteWithParts(context, { find: deleted, table: 'deleted_sequence' }, (sequences) =>
    deleteSequenceGroups(context, sequences),
  )
}

/** Sequence groups last: their other rows are found by their ids. */
function deleteSequenceGroups(context: JobContext, sequences: string): Promise<void> {
  const groups = `select id
       from sequence_group force index (sequence_group_version)
      where sequence_id in (${sequences})
      limit ${BATCH}`
  return deleteWithParts(context, { find: groups, table: 'sequence_group' }, async (ids) => {
    const reservations = `select token from reservation where group_id in (${ids}) limit ${BATCH}`
    await deleteFound(context, reservations, deleteReservation)
    const values = `select group_id, period_key
       from sequence_value force index (primary)
      where group_id in (${ids})
      limit ${BATCH}`
    await deleteFound<Record<'group_id' | 'period_key', number>>(
      context,
      values,
      ({ group_id, period_key }) =>
        `delete from sequence_value where group_id = ${integer(group_id)} and period_key = ${integer(period_key)}`,
    )
  })
}

function deleteReservation({ token }: { token: Buffer }): string {
  return `delete from reservation where token = ${bytes(token)}`
}

/**
 * Deletes the idempotency keys older than `ageMs` by the database's clock, and returns their number. A writer only waits
 * for one if it reuses an old key at that moment.
 */
export function sweepKeys(context: Omit<JobContext, 'now'>, ageMs: number): Promise<number> {
  const before = `utc_timestamp(3) - interval ${integer(1000 * ageMs)} microsecond`
  return inBatches(context, async (connection) => {
    const rows = await select<{ hash: Buffer }>(
      connection,
      `select hash from idempotency_key
        where claimed_at < ${before}
        order by claimed_at
        limit ${integer(BATCH)}`,
    )
    if (rows.length === 0) return 0
    // In the order of the primary key, so that the server uses it. A key reused in the meantime is younger.
    await connection.query(
      `delete from idempotency_key
        where hash in (${list(rows, ({ hash }) => digest(hash.toString('hex')))})
          and claimed_at < ${before}
        order by hash
        limit ${integer(BATCH)}`,
    )
    return rows.length
  })
}

/** Deletes the fences of writers that ended long ago. It waits for no row of a writer. */
function sweepFences(context: JobContext): Promise<void> {
  const isOld = `touched_at < utc_timestamp() - interval ${integer(RETENTION_DAYS)} day`
  const old = `select id from fence where ${isOld} limit ${BATCH}`
  return deleteFound<{ id: number }>(
    context,
    old,
    ({ id }) => `delete from fence where id = ${integer(id)} and ${isOld}`,
  )
}
