import { setTimeout as pause } from 'node:timers/promises'
import { RETENTION_DAYS } from '../commit/fence.ts'
import { judgeHolds } from '../commit/holdStatements.ts'
import { PERIOD_CODES, startSecond } from '../commit/periodStatements.ts'
import { codeOf } from '../commit/reservations.ts'
import { withTimeout } from '../mysql/errors.ts'
import type { Database } from '../mysql/pool.ts'
import type { PooledConnection } from '../mysql/pooledConnection.ts'
import { JOBS } from '../mysql/slots.ts'
import { bytes, EPOCH, groupBy, instant, integer, list, timeOf } from '../mysql/sql.ts'
import type { Notices } from '../operations/log.ts'
import { DAY_MS, isKnownZone, LONGEST_MS, PERIODS, type Period, periodKeyOf } from '../rules/calendar.ts'
import { NthError } from '../rules/errors.ts'
import { latestKeys, PAST_LEADERBOARDS } from '../rules/leaderboards.ts'
import { parsePeriods } from './columns.ts'

export interface JobContext {
  database: Database
  /** By the database's clock: a process whose clock is ahead must not delete anything too early. */
  now: Date
  /** Called between steps; false: stop. */
  shouldContinue: () => boolean
}

/** A job for one of all processes that share the database: whichever finds it due first. */
export interface ScheduledJob {
  /** The job's row in the table `scheduled_job`; must not change. */
  name: string
  /** Interval in seconds, by the database's clock. */
  everyS: number
  /** Whether it is also due if it has not run since this process started. */
  isDueAtStart?: boolean
  run: (context: JobContext) => Promise<void>
}

/** @param keyTtlMs age at which results under idempotency keys are deleted, in milliseconds */
export function sweeps(keyTtlMs: number): ScheduledJob[] {
  return [
    { name: 'sweep keys', everyS: 60, run: (context) => sweepKeys(context, keyTtlMs) },
    { name: 'sweep fences', everyS: 3600, run: sweepFences },
    { name: 'sweep periods', everyS: 3600, run: sweepPeriods },
    { name: 'sweep sequences', everyS: 3600, run: sweepSequences },
    { name: 'sweep holds', everyS: 86_400, run: sweepHolds },
  ]
}

/** Average interval between checks. It varies, so that processes started together check at different times. */
const CHECK_EVERY_MS = 15_000
/** Spread of the first checks of processes started together. */
const FIRST_CHECK_WITHIN_MS = 2000

/** Runs scheduled jobs when they are due, one after another. */
export function openJobs(database: Database, jobs: readonly ScheduledJob[], notices: Notices) {
  const openedAt = performance.now()
  let isFirst = true
  let pauseMs = Math.random() * FIRST_CHECK_WITHIN_MS

  async function check(signal: AbortSignal): Promise<void> {
    pauseMs = CHECK_EVERY_MS * (0.5 + Math.random())
    const ageS = Math.floor((performance.now() - openedAt) / 1000)
    const claims = jobs.map(({ name, everyS, isDueAtStart }) => ({
      name,
      everyS: isFirst && isDueAtStart ? Math.min(ageS, everyS) : everyS,
    }))
    const due = await claimDue(database, claims)
    isFirst = false
    const isOpen = () => !signal.aborted
    for (const job of jobs) if (due.has(job.name) && isOpen()) await run(job, isOpen)
  }

  async function run(job: ScheduledJob, isOpen: () => boolean): Promise<void> {
    try {
      await job.run({ database, now: await database.withRetry(JOBS, timeOf), shouldContinue: isOpen })
    } catch (error) {
      // Including timeouts, which are reported nowhere else.
      if (isOpen()) notices.fault(error)
    }
  }

  return repeat(() => pauseMs, check, notices)
}

/** Maximum wait for running work, on closing. */
const CLOSE_TIMEOUT_MS = 1000

/**
 * Repeats work after pauses, one at a time, until it is closed.
 *
 * @param pauseMs called for each pause
 */
export function repeat(
  pauseMs: () => number,
  work: (signal: AbortSignal) => Promise<unknown>,
  notices: Notices,
) {
  const closing = new AbortController()
  const { signal } = closing

  async function run(): Promise<void> {
    while (await pause(pauseMs(), true, { ref: false, signal }).catch(() => false)) {
      await work(signal).catch((error) => {
        // An unreachable database is reported elsewhere.
        if (!signal.aborted && !(error instanceof NthError)) notices.fault(error)
      })
    }
  }

  const ended = run()
  return {
    async close(): Promise<void> {
      closing.abort()
      await withTimeout(CLOSE_TIMEOUT_MS, ended).catch(() => undefined)
    },
  }
}

/** The names of the jobs that are due. Each is returned to one caller only, until it is due again. */
export async function claimDue(database: Database, jobs: readonly Pick<ScheduledJob, 'name' | 'everyS'>[]) {
  const due = new Set<string>()
  await database.withRetry(JOBS, async (connection) => {
    await connection.query(
      `insert ignore into scheduled_job (name, started_at)
       values ${list(jobs, ({ name }) => `(${bytes(name)}, ${EPOCH})`)}`,
    )
    for (const { name, everyS } of jobs) {
      const { affectedRows } = await connection.query(
        `update scheduled_job
            set started_at = utc_timestamp()
          where name = ${bytes(name)} and started_at <= utc_timestamp() - interval ${integer(everyS)} second`,
      )
      if (affectedRows === 1) due.add(name)
    }
  })
  return due
}

/** Rows that one transaction of a sweep changes: takes a few milliseconds. */
const BATCH = 500

type PrimaryKey = Record<string, number | Buffer>

/** Deletes the rows that a select finds, in batches, until there are no more. */
async function deleteFound<Row extends PrimaryKey>(
  { database, shouldContinue }: JobContext,
  find: string,
  deletionsOf: (rows: readonly Row[]) => readonly string[],
): Promise<void> {
  while (shouldContinue()) {
    const count = await database.withRetry(JOBS, async (connection) => {
      const rows = await connection.select<Row>(`${find} limit ${BATCH}`)
      if (rows.length > 0) await executeAll(connection, deletionsOf(rows))
      return rows.length
    })
    if (count < BATCH) return
  }
}

/** Deletes each row by its full primary key: otherwise a server may scan, and lock, all of a small table. */
function eachFrom(table: string, condition = 'true') {
  return (rows: readonly PrimaryKey[]) =>
    rows.map((row) => {
      const key = Object.entries(row).map(
        ([column, value]) => `${column} = ${typeof value === 'number' ? integer(value) : bytes(value)}`,
      )
      return `delete from ${table} where ${key.join(' and ')} and ${condition}`
    })
}

/** Deletes the rows whose ids a select finds, until there are no more: first what belongs to them, then themselves. */
async function deleteWithParts(
  { database, shouldContinue }: JobContext,
  { find, table }: { find: string; table: string },
  deleteParts: (idList: string) => Promise<void>,
): Promise<void> {
  while (shouldContinue()) {
    const rows = await database.select<{ id: number }>(JOBS, find)
    if (rows.length === 0) return
    await deleteParts(list(rows, ({ id }) => integer(id)))
    if (!shouldContinue()) return
    await database.withRetry(JOBS, (connection) => executeAll(connection, eachFrom(table)(rows)))
  }
}

function executeAll(connection: PooledConnection, statements: readonly string[]): Promise<void> {
  return connection.inTransaction(async () => {
    for (const statement of statements) await connection.query(statement)
  })
}

/** How long holds are kept after they have expired, or would have. */
export const HOLDS_KEPT_MS = 30 * DAY_MS
/** Parts of holds that one transaction deletes at most: as many as a hold can have. */
const PARTS = 1000

type SweptPart = { token: Buffer; counter_id: number; expires_at: number; is_open: number }

/**
 * Deletes holds that have expired, or would have, long ago: each with all of its parts, as the rest could be confirmed. What
 * nobody has closed is still part of what its counter holds, until its holds are judged by a later instant.
 */
export async function sweepHolds({ database, now, shouldContinue }: JobContext): Promise<void> {
  const cutoff = now.getTime() - HOLDS_KEPT_MS
  const judged = new Set<number>()
  let after = 'true'
  while (shouldContinue()) {
    const page = await database.withRetry(JOBS, async (connection) => {
      const parts = await connection.select<SweptPart>(
        `select token, counter_id, expires_at, open_until is not null as is_open
           from hold force index (primary)
          where ${after}
          order by token, counter_id
          limit ${PARTS}`,
      )
      const holds = [...groupBy(parts, ({ token }) => token.toString('hex')).values()]
      // More parts of the last one may follow.
      if (parts.length === PARTS && holds.length > 1) holds.pop()
      const old = holds.filter((hold) => hold.every(({ expires_at }) => expires_at <= cutoff)).flat()
      // Not with the deletions: so a counter is locked for a moment only.
      for (const { counter_id: id, is_open } of old)
        if (is_open && !judged.has(id)) {
          await executeAll(connection, judgeHolds(id, cutoff))
          judged.add(id)
        }
      const keys = old.map(({ token, counter_id }) => ({ token, counter_id }))
      if (old.length > 0) await executeAll(connection, eachFrom('hold')(keys))
      return { isLast: parts.length < PARTS, token: holds.at(-1)?.[0].token }
    })
    if (page.isLast || !page.token) return
    after = `token > ${bytes(page.token)}`
  }
}

/** Counters or sequence groups per statement: takes a few milliseconds. */
const PAGE = 500

/** The rows that a select with a condition finds, in pages in the order of their ids. */
async function* pagesOf<Row extends { id: number }>(
  { database, shouldContinue }: JobContext,
  selection: string,
): AsyncGenerator<Row[]> {
  let last: number | undefined = 0
  while (last !== undefined && shouldContinue()) {
    const following = `${selection} and id > ${integer(last)} order by id limit ${PAGE}`
    const page: Row[] = await database.select<Row>(JOBS, following)
    yield page
    last = page.at(-1)?.id
  }
}

type TrackedCounterRow = { id: number; periods: Buffer; forgotten_at: number }

/**
 * Deletes history rows whose retention has ended, leaderboards of periods that are no longer kept, and subjects that are
 * forgotten. Runs in batches, each in its own transaction, over rows that nobody writes any more, so no writer waits.
 * Periods that ended less than a day ago are left alone.
 *
 * @throws the first failure, after it has continued with the other counters
 */
export async function sweepPeriods(context: JobContext): Promise<void> {
  const failures: unknown[] = []
  const onFailure = (error: unknown) => void failures.push(error)
  // Blocks first: they would count rows that are gone.
  await deleteIn(context, 'leaderboard_block', isPastLeaderboard(context)).catch(onFailure)
  const counters = 'select id, periods, forgotten_at from counter force index (primary) where true'
  for await (const page of pagesOf<TrackedCounterRow>(context, counters))
    for (const group of groupBy(page, ({ periods }) => String(periods)).values())
      await sweepGroup(context, group).catch(onFailure)
  await sweepDeleted(context).catch(onFailure)
  if (failures.length > 0) throw failures[0]
}

/** @throws if the periods, which are the same of all these counters, can't be parsed */
async function sweepGroup(
  context: JobContext,
  counters: readonly [TrackedCounterRow, ...TrackedCounterRow[]],
): Promise<void> {
  const { periods } = parsePeriods(counters[0].periods.toString('latin1'))
  const ids = list(counters, ({ id }) => integer(id))
  for (const period of PERIODS) {
    const kept = periods.find((tracked) => tracked.period === period)
    const keepDays = kept ? kept.keepDays : 1
    // A period that began before this instant ended at least so many days ago, in any time zone.
    const endedFor = (days: number) =>
      `counter_id in (${ids}) and period = ${PERIOD_CODES[period]} and start < ${startSecond(context.now.getTime() - days * DAY_MS - LONGEST_MS[period])}`
    await deleteIn(context, 'counter_subject', endedFor(1))
    if (keepDays !== null) await deleteIn(context, 'counter_history', endedFor(keepDays))
  }
  const past = `counter_id in (${ids}) and ${isPastLeaderboard(context)}`
  await deleteIn(context, 'leaderboard_period', past)
  const forgotten = counters.flatMap(({ id, forgotten_at: at }) =>
    at > 0 ? `counter_id = ${integer(id)} and period = 0 and start < ${integer(at)}` : [],
  )
  if (forgotten.length > 0) await deleteIn(context, 'counter_subject', forgotten.join(' or '))
}

/** The condition of leaderboards of periods so long past that nobody writes them. */
function isPastLeaderboard({ now }: JobContext): string {
  // A zone may be a day behind UTC.
  const at = now.getTime() - DAY_MS
  return isBefore((period) => Math.min(...latestKeys('UTC', period, at, PAST_LEADERBOARDS)))
}

/** The condition of periods before the one with a key. */
function isBefore(keyOf: (period: Period) => number): string {
  const ranges = PERIODS.map((period) => {
    const key = keyOf(period)
    // Keys of different periods have different numbers of digits.
    return `period_key between ${10 ** (String(key).length - 1)} and ${integer(key - 1)}`
  })
  return `(${ranges.join(' or ')})`
}

/** Deletes the history and the subjects of deleted counters. Nobody writes them: ids are not reused. */
function sweepDeleted(context: JobContext): Promise<void> {
  const deleted = `select id from deleted_counter order by id limit ${PAGE}`
  return deleteWithParts(context, { find: deleted, table: 'deleted_counter' }, async (ids) => {
    await deleteIn(context, 'counter_history', `counter_id in (${ids})`)
    await deleteIn(context, 'counter_subject', `counter_id in (${ids})`)
  })
}

/** Primary keys of what counters and sequence groups have in periods. */
const KEYS = {
  leaderboard_block: 'namespace_id, period_key, from_value',
  leaderboard_period: 'counter_id, period_key',
  counter_history: 'counter_id, period, start',
  counter_subject: 'counter_id, period, start, subject',
  sequence_value: 'group_id, period_key',
  sequence_subject: 'group_id, period_key, subject',
}

/** Deletes the rows of a table that meet a condition on its primary key. */
function deleteIn(context: JobContext, table: keyof typeof KEYS, condition: string): Promise<void> {
  const find = `select ${KEYS[table]} from ${table} force index (primary) where ${condition}`
  return deleteFound(context, find, eachFrom(table))
}

/** Retention of released and expired reservations without a number of their own, in days. */
export const KEPT_DAYS = 30

/**
 * Deletes the rows of deleted sequences, reservations that ended long ago without a number of their own, and the subjects
 * of past periods. Runs in batches, each in its own transaction, over rows that nobody writes any more.
 */
export async function sweepSequences(context: JobContext): Promise<void> {
  const before = context.now.getTime() - KEPT_DAYS * DAY_MS
  for (const state of ['RELEASED', 'EXPIRED'] as const) {
    const old = `select token
       from reservation force index (reservation_closed)
      where state = ${codeOf(state)} and not is_free and closed_at < ${instant(before)}`
    await deleteFound(context, old, eachFrom('reservation'))
  }
  const deleted = 'select id from deleted_sequence order by id limit 1'
  await deleteWithParts(context, { find: deleted, table: 'deleted_sequence' }, (sequences) =>
    deleteSequenceGroups(context, sequences),
  )
  await sweepSubjects(context)
}

/** Sequence groups last: their other rows are found by their ids. */
function deleteSequenceGroups(context: JobContext, sequences: string): Promise<void> {
  const groups = `select id
       from sequence_group force index (sequence_group_version)
      where sequence_id in (${sequences})
      limit ${BATCH}`
  return deleteWithParts(context, { find: groups, table: 'sequence_group' }, async (ids) => {
    const reservations = `select token from reservation where group_id in (${ids})`
    await deleteFound(context, reservations, eachFrom('reservation'))
    await deleteIn(context, 'sequence_value', `group_id in (${ids})`)
    await deleteIn(context, 'sequence_subject', `group_id in (${ids})`)
  })
}

type GroupWithSubjects = { id: number; zone: Buffer }

/** Deletes the subjects of periods that ended a day ago or earlier, also of those in which a sequence restarted once. */
async function sweepSubjects(context: JobContext): Promise<void> {
  const before = new Date(context.now.getTime() - DAY_MS)
  // Not `exists`, which a server may turn into a join that reads all subjects.
  const groups = `select id, (select s.time_zone from sequence s where s.id = sequence_id) as zone
       from sequence_group g force index (primary)
      where (select 1 from sequence_subject u where u.group_id = g.id and u.period_key > 0 limit 1) is not null`
  for await (const page of pagesOf<GroupWithSubjects>(context, groups))
    for (const [zone, alike] of groupBy(page, (group) => group.zone.toString('latin1'))) {
      if (!isKnownZone(zone)) continue
      const past = isBefore((period) => periodKeyOf(period, zone, before))
      const ids = list(alike, ({ id }) => integer(id))
      await deleteIn(context, 'sequence_subject', `group_id in (${ids}) and ${past}`)
    }
}

/**
 * Deletes the idempotency keys older than `ageMs` by the database's clock. A writer only waits for one if it reuses an old
 * key at that moment.
 */
export function sweepKeys(context: JobContext, ageMs: number): Promise<void> {
  const isOld = `claimed_at < utc_timestamp(3) - interval ${integer(1000 * ageMs)} microsecond`
  const old = `select hash from idempotency_key where ${isOld} order by claimed_at`
  // In the order of the primary key, so that the server uses it. A key reused in the meantime is younger.
  return deleteFound<{ hash: Buffer }>(context, old, (rows) => [
    `delete from idempotency_key
      where hash in (${list(rows, ({ hash }) => bytes(hash))}) and ${isOld}
      order by hash
      limit ${BATCH}`,
  ])
}

/** Deletes the fences of writers that ended long ago. It waits for no row of a writer. */
function sweepFences(context: JobContext): Promise<void> {
  const isOld = `touched_at < utc_timestamp() - interval ${integer(RETENTION_DAYS)} day`
  const old = `select id from fence where ${isOld}`
  return deleteFound(context, old, eachFrom('fence', isOld))
}
