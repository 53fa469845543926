import { COLUMNS, PERIOD_CODES, startSecond } from '../commit/periodStatements.ts'
import type { Connection } from '../mysql/connection.ts'
import type { Database } from '../mysql/pool.ts'
import { BEGIN, COMMIT, type PooledConnection } from '../mysql/pooledConnection.ts'
import { rowsOf } from '../mysql/session.ts'
import { JOBS } from '../mysql/slots.ts'
import { bytes, EPOCH, groupBy, integer, list } from '../mysql/sql.ts'
import { calendarOf, instantOf, LONGEST_MS, PERIODS, type Period, periodKeyOf } from '../rules/calendar.ts'
import type { Retention } from '../rules/counter.ts'
import { ALL_TIME, type Leaderboard, latestKeys, PAST_LEADERBOARDS } from '../rules/leaderboards.ts'
import { workOn } from './batches.ts'
import { COUNTER_EXISTS, JOIN_VALUE, REVISION, UPDATED_AT, VALUE } from './columns.ts'
import type { JobContext, ScheduledJob } from './jobs.ts'
import {
  BLOCK,
  DOUBLE,
  type LeaderboardBlock,
  LOWEST,
  layOut,
  lockLeaderboards,
  type Move,
  readBlockChanges,
  tableOf,
} from './leaderboardBlocks.ts'
import { leaderboardsIn, retentionOf } from './namespaces.ts'

/** Rows of a copy. */
const BATCH = 1000
/** Maximum splits after a copy: each takes up to 5 ms, and readers wait for it. */
const MAX_SPLITS = 20

/** A counter whose rows on leaderboards may be outdated. It may have been deleted. */
type ListedCounter = Record<'id' | 'namespaceId', number>

/**
 * Copies counters' rows, in any order.
 *
 * @param past how many past periods are copied, besides the current ones at `now`
 * @returns the errors of counters that cannot be copied
 * @throws {NthError} UNAVAILABLE
 */
export async function copyToLeaderboard(
  database: Database,
  counters: readonly ListedCounter[],
  now: Date,
  past: number,
): Promise<Error[]> {
  const ordered = counters.toSorted((a, b) => a.id - b.id)
  const errors: Error[] = []
  for (let from = 0; from < ordered.length; from += BATCH) {
    const doubled: LeaderboardBlock[] = []
    const copy = async (batch: readonly ListedCounter[]) => {
      const copied = (connection: PooledConnection) =>
        connection.orRollBack(() => copyRows(connection, batch, now, past))
      doubled.push(...(await database.withRetry(JOBS, copied)))
    }
    await workOn(ordered.slice(from, from + BATCH), copy, (_, error) => errors.push(error))
    await splitDoubled(database, doubled)
  }
  return errors
}

async function splitDoubled(database: Database, doubled: readonly LeaderboardBlock[]): Promise<void> {
  let splits = 0
  for (const block of doubled)
    for (let from: number | undefined = block.from; from !== undefined && splits < MAX_SPLITS; splits++)
      from = await layOut(database, block, from, DOUBLE)
}

function idOf({ id }: ListedCounter): string {
  return integer(id)
}

type LockedNamespace = { id: number; leaderboards: Buffer }

/** A counter as it is, and its value on the leaderboard of all time. */
interface CopiedRow extends Move, Record<'time_zone' | 'periods', Buffer> {
  updated_at: string
  revision: number | string
}

/**
 * Copies the present state of counters to the leaderboards, in a transaction, and removes those that were deleted.
 * Locks their namespaces first: so one copy after another reads and writes, and all rows are counted in their blocks.
 *
 * @returns the blocks that have doubled
 */
async function copyRows(
  connection: PooledConnection,
  counters: readonly ListedCounter[],
  now: Date,
  past: number,
): Promise<LeaderboardBlock[]> {
  const namespaceIds = [...new Set(counters.map(({ namespaceId }) => namespaceId))]
  const answers = await connection.send([
    ...BEGIN,
    lockLeaderboards(namespaceIds),
    `select 1 from leaderboard_block where namespace_id in (${list(namespaceIds, integer)}) limit 1`,
    `select c.id, c.namespace_id as namespaceId, cast(${ALL_TIME} as unsigned) as periodKey, c.time_zone, c.periods,
            coalesce(${UPDATED_AT} + 0, ${EPOCH}) as updated_at, ${REVISION} as revision,
            r.value as \`before\`, if(r.revision >= ${REVISION}, r.value, ${VALUE}) as \`after\`
       from counter c
       join counter_value v on ${JOIN_VALUE}
       left join leaderboard r on r.counter_id = c.id
      where c.id in (${list(counters, idOf)}) and ${COUNTER_EXISTS}`,
  ])
  const [namespaces, blocks] = [rowsOf<LockedNamespace>(answers.at(-3)), rowsOf(answers.at(-2))]
  const rows = rowsOf<CopiedRow>(answers.at(-1))
  const periodsOf = new Map(namespaces.map(({ id, leaderboards }) => [id, leaderboardsIn(leaderboards)]))
  const present = new Set(rows.map(({ id }) => id))
  const removed = counters.filter(({ id }) => !present.has(id))
  const moves = [
    ...rows,
    ...(await readTotals(connection, rows, periodsOf, now, past)),
    ...(await readRemoved(connection, removed)),
  ].filter(({ before, after }) => before !== after)
  const changes = await readBlockChanges(connection, moves, blocks.length > 0)
  await connection.send([...writesOf(rows, moves), ...changes.counting, ...COMMIT])
  return changes.doubled
}

async function readRemoved(connection: Connection, counters: readonly ListedCounter[]): Promise<Move[]> {
  if (counters.length === 0) return []
  const isOne = `counter_id in (${list(counters, idOf)})`
  return connection.select<Move>(
    `select counter_id as id, namespace_id as namespaceId, cast(${ALL_TIME} as unsigned) as periodKey,
            value as \`before\`, null as \`after\`
       from leaderboard
      where ${isOne}
     union all
     select counter_id, namespace_id, period_key, value, null
       from leaderboard_period force index (primary)
      where ${isOne}`,
  )
}

/**
 * Processes of earlier versions copy without the lock. If two copies run at once, the newer state wins; for equal states
 * the later `updated_at`, as a change by 0 does not raise the revision.
 */
function writesOf(rows: readonly CopiedRow[], moves: readonly Move[]): string[] {
  const states = rows.map(
    ({ id, namespaceId, after, updated_at, revision }) =>
      `(${id}, ${namespaceId}, ${after}, ${updated_at}, ${revision})`,
  )
  const totals = moves.flatMap(({ id, periodKey, namespaceId, after }) =>
    periodKey === ALL_TIME || after === null ? [] : `(${id}, ${periodKey}, ${namespaceId}, ${after})`,
  )
  const statements = moves
    .filter(({ after }) => after === null)
    .map(({ id, periodKey }) => {
      const { table, isOn } = tableOf(periodKey)
      return `delete r from ${table} r where r.counter_id = ${id} and ${isOn}`
    })
  if (states.length > 0)
    statements.push(`insert into leaderboard (counter_id, namespace_id, value, updated_at, revision)
     values ${states.join(', ')}
     on duplicate key update
       value = if(values(revision) > leaderboard.revision, values(value), leaderboard.value),
       updated_at = case
         when values(revision) > leaderboard.revision then values(updated_at)
         when values(revision) = leaderboard.revision then greatest(values(updated_at), leaderboard.updated_at)
         else leaderboard.updated_at
       end,
       revision = greatest(values(revision), leaderboard.revision)`)
  if (totals.length > 0)
    statements.push(`insert into leaderboard_period (counter_id, period_key, namespace_id, value)
     values ${totals.join(', ')}
     on duplicate key update value = values(value)`)
  return statements
}

type CopiedTotal = Record<'id' | 'period' | 'start', number> & { value: number | string }

/** Reads the latest period totals of counters, for the leaderboards of their namespaces, and their rows there. */
async function readTotals(
  connection: PooledConnection,
  rows: readonly CopiedRow[],
  periodsOf: ReadonlyMap<number, readonly Period[]>,
  now: Date,
  past: number,
): Promise<Move[]> {
  const listed = rows.filter(({ namespaceId }) => periodsOf.get(namespaceId)?.length)
  if (listed.length === 0) return []
  const wanted: Omit<Move, 'before' | 'after'>[] = []
  const retentions = new Map<number, Retention>()
  const textOf = ({ namespaceId, time_zone, periods }: CopiedRow) =>
    `${periodsOf.get(namespaceId)} ${time_zone} ${periods}`
  for (const alike of groupBy(listed, textOf).values()) {
    const [{ namespaceId, time_zone, periods }] = alike
    const retention = retentionOf(time_zone, periods)
    const keys = (periodsOf.get(namespaceId) ?? []).flatMap((period) => {
      // In an earlier time zone of the counter, the next one may have begun: its row there is removed.
      const { end } = calendarOf(retention.timeZone).bucketAt(period, now.getTime())
      return latestKeys(retention.timeZone, period, end, past + 1)
    })
    for (const { id, namespaceId } of alike) {
      retentions.set(id, retention)
      for (const periodKey of keys) wanted.push({ id, namespaceId, periodKey })
    }
  }
  const idList = list(listed, idOf)
  const keyList = [...new Set(wanted.map(({ periodKey }) => periodKey))].join(', ')
  const chosen = PERIODS.filter((period) => [...periodsOf.values()].some((all) => all.includes(period)))
  const answers = await connection.send([
    chosen.map((period) => selectTotals(idList, period, now, past)).join('\nunion all\n'),
    `select counter_id as id, period_key as periodKey, value as \`before\`
       from leaderboard_period force index (primary)
      where counter_id in (${idList}) and period_key in (${keyList})`,
  ])
  const sums = new Map<string, bigint>()
  for (const { id, period: code, start, value } of rowsOf<CopiedTotal>(answers[0])) {
    const { timeZone = '', periods = [] } = retentions.get(id) ?? {}
    const tracked = periods.find(({ period }) => PERIOD_CODES[period] === code)
    if (!tracked || 1000 * start < (tracked.since ?? 0)) continue
    const at = instantOf(calendarOf(timeZone), tracked.period, 1000 * start)
    const text = `${id} ${periodKeyOf(tracked.period, timeZone, new Date(at))}`
    sums.set(text, (sums.get(text) ?? 0n) + BigInt(value))
  }
  const present = new Map(
    rowsOf<Move>(answers[1]).map(({ id, periodKey, before }) => [`${id} ${periodKey}`, before]),
  )
  return wanted.map((row) => {
    const text = `${row.id} ${row.periodKey}`
    const sum = Number(sums.get(text) ?? 0n)
    // A total beyond the safe range could not be shown.
    const after = sum !== 0 && Number.isSafeInteger(sum) ? sum : null
    return { before: present.get(text) ?? null, after, ...row }
  })
}

/** Selects the latest totals of a period. Each may be in several parts: the history, and the columns of slots. */
function selectTotals(idList: string, period: Period, now: Date, past: number): string {
  // Also totals of an hour that the clock repeats, and totals recorded in another time zone.
  const from = startSecond(now.getTime() - (past + 3) * LONGEST_MS[period])
  const [{ start, added }, code] = [COLUMNS[period], PERIOD_CODES[period]]
  return `select counter_id as id, cast(${code} as unsigned) as period, ${start} as start, ${added} as value
       from counter_value force index (primary)
      where counter_id in (${idList}) and ${start} >= ${from}
     union all
     select counter_id, period, start, value
       from counter_history force index (primary)
      where counter_id in (${idList}) and period = ${code} and start >= ${from}`
}

/** For how long a namespace is read, after a process noted it, in seconds. */
const READ_S = 660

/** Notes that the leaderboards of a namespace are read. Returns its id, if it exists. */
export function noteRead(database: Database, name: string): Promise<number | undefined> {
  return database.withRetry(JOBS, async (connection) => {
    const find = `select id from namespace where name = ${bytes(name)}`
    const [namespace] = await connection.select<{ id: number }>(find)
    if (namespace)
      await connection.query(
        `insert into leaderboard_read (namespace_id, read_at)
         values (${integer(namespace.id)}, utc_timestamp())
         on duplicate key update read_at = values(read_at)`,
      )
    return namespace?.id
  })
}

/** Returns the counters whose namespaces are read. */
export async function withReaders<C extends ListedCounter>(database: Database, counters: readonly C[]) {
  if (counters.length === 0) return []
  const ids = new Set(counters.map(({ namespaceId }) => namespaceId))
  const rows = await database.select<{ id: number }>(
    JOBS,
    `select namespace_id as id
       from leaderboard_read
      where namespace_id in (${list([...ids], integer)}) and read_at > utc_timestamp() - interval ${READ_S} second`,
  )
  const read = new Set(rows.map(({ id }) => id))
  return counters.filter(({ namespaceId }) => read.has(namespaceId))
}

export const leaderboardJobs: readonly ScheduledJob[] = [
  // At start, as the process that this one replaces may have been killed.
  { name: 'scan leaderboard', everyS: 600, isDueAtStart: true, run: scanLeaderboard },
  { name: 'fill leaderboards', everyS: 10, run: fillLeaderboards },
]

async function fillLeaderboards(context: JobContext): Promise<void> {
  if ((await readUnfilled(context)).length > 0) await scanLeaderboard(context)
}

/** Of a namespace with leaderboards that lack counters which existed before. Table alias: n. */
const IS_UNFILLED = 'n.leaderboards <> n.filled_leaderboards'

function readUnfilled({ database }: JobContext) {
  const unfilled = `select n.id, n.leaderboards from namespace n where ${IS_UNFILLED}`
  return database.select<LockedNamespace>(JOBS, unfilled)
}

/** Ids per statement of a scan: takes about 20 ms. */
const PAGE = 10_000

/**
 * Scans all counters for rows that were not copied to the leaderboards, and for copies of deleted counters; then counts
 * the leaderboards. A failure stops nothing else.
 *
 * @throws the first failure, at the end
 */
async function scanLeaderboard(context: JobContext): Promise<void> {
  const { database, shouldContinue } = context
  const failures: unknown[] = []
  const onFailure = (error: unknown) => void failures.push(error)
  const unfilled = await readUnfilled(context)
  const [last] = await database.select<{ id: number | null }>(JOBS, 'select max(id) as id from counter')
  // A counter that cannot be copied is on no leaderboard, and delays none.
  const faults: Error[] = []
  for (let from = 0; from < (last?.id ?? 0) && shouldContinue(); from += PAGE)
    await scanPage(context, from).then((errors) => faults.push(...errors), onFailure)
  if (failures.length === 0 && shouldContinue()) {
    for (const { id, leaderboards } of unfilled) {
      // Unless other leaderboards were requested meanwhile.
      await database.withRetry(JOBS, (connection) =>
        connection.query(
          `update namespace
              set filled_leaderboards = leaderboards
            where id = ${integer(id)} and leaderboards = ${bytes(leaderboards)}`,
        ),
      )
    }
  }
  await layOutAll(context, onFailure)
  for (const error of [...failures, ...faults]) throw error
}

function scanPage({ database, now }: JobContext, from: number): Promise<Error[]> {
  const isIn = (id: string) => `${id} > ${integer(from)} and ${id} <= ${integer(from + PAGE)}`
  return copyUncopied(database, now, isIn('c.id'), isIn('r.counter_id'))
}

/** Scans a namespace of which other processes may not have copied all changes. */
export function scanNamespace(database: Database, id: number, now: Date): Promise<Error[]> {
  const isIn = `namespace_id = ${integer(id)}`
  return copyUncopied(database, now, `c.${isIn}`, `r.${isIn}`)
}

/** Copies the counters that were not copied: also all counters of namespaces with leaderboards to be filled. */
async function copyUncopied(database: Database, now: Date, isScanned: string, isListed: string) {
  // A copy that runs while a counter is deleted may recreate its row.
  const counters = await database.select<ListedCounter>(
    JOBS,
    `select c.id, c.namespace_id as namespaceId
       from counter c
       join namespace n on n.id = c.namespace_id
       join counter_value v on ${JOIN_VALUE}
       left join leaderboard r on r.counter_id = c.id
      where ${isScanned} and ${COUNTER_EXISTS}
        and (${REVISION} > coalesce(r.revision, 0) or ${IS_UNFILLED})
     union
     select r.counter_id, r.namespace_id
       from leaderboard r
       left join counter c on c.id = r.counter_id
      where ${isListed} and c.id is null`,
  )
  return copyToLeaderboard(database, counters, now, PAST_LEADERBOARDS)
}

/** Lays out the blocks of all leaderboards with more rows than a block. */
async function layOutAll(context: JobContext, onFailure: (error: unknown) => undefined): Promise<void> {
  const { database, shouldContinue } = context
  const large = (table: string, periodKey: string, isOn: string) =>
    `select *
       from (select distinct namespace_id as namespaceId, ${periodKey} as periodKey from ${table}) l
      where (
             select 1
               from ${table} r force index (${table}_value)
              where r.namespace_id = l.namespaceId and ${isOn}
              limit 1 offset ${BLOCK}) is not null`
  const leaderboards = await database.select<Leaderboard>(
    JOBS,
    `${large('leaderboard', `cast(${ALL_TIME} as unsigned)`, 'true')}
     union
     ${large('leaderboard_period', 'period_key', 'r.period_key = l.periodKey')}
     union
     select namespace_id, period_key from leaderboard_block`,
  )
  for (const leaderboard of leaderboards) {
    for (let from: number | undefined = LOWEST; from !== undefined && shouldContinue(); )
      from = await layOut(database, leaderboard, from).catch(onFailure)
  }
}
