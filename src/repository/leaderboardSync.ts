import {
  COLUMNS,
  COUNTER_EXISTS,
  DEFINITION,
  type DefinitionRow,
  definitionIn,
  JOIN_VALUE,
  PERIOD_CODES,
  REVISION,
  startSecond,
  UPDATED_AT,
  VALUE,
} from '../commit/periodStatements.ts'
import { type Connection, type Database, inTransaction } from '../mysql/pool.ts'
import { bytes, EPOCH, groupBy, integer, list, select } from '../mysql/sql.ts'
import {
  calendarOf,
  DAY_MS,
  instantOf,
  LONGEST_MS,
  PERIODS,
  type Period,
  periodKeyOf,
} from '../rules/calendar.ts'
import { ALL_TIME, type Leaderboard, latestKeys, PAST_LEADERBOARDS } from '../rules/leaderboards.ts'
import { workOn } from './batches.ts'
import { deleteFound, eachFrom, type JobContext, type ScheduledJob } from './jobs.ts'
import {
  areBlocksOf,
  countMoves,
  fromRowsOf,
  LOWEST,
  layOut,
  MAX_BLOCK,
  type Move,
  rowsOf,
} from './leaderboardBlocks.ts'
import { leaderboardsIn } from './namespaces.ts'

const COMMENT = ' /* leaderboard */'

/** Rows of a copy. */
const BATCH = 1000

/**
 * Copies counters' rows, whose ids are in any order.
 *
 * @param past how many past periods are copied, besides the current ones at `now`
 * @returns the errors of counters that cannot be copied
 * @throws {NthError} UNAVAILABLE
 */
export async function copyToLeaderboard(
  database: Database,
  ids: readonly number[],
  now: Date,
  past: number,
): Promise<Error[]> {
  const ordered = ids.toSorted((a, b) => a - b)
  const errors = new Map<string, Error>()
  for (let from = 0; from < ordered.length; from += BATCH)
    await workOn(ordered.slice(from, from + BATCH), String, errors, (batch) =>
      database.withRetry((connection) =>
        inTransaction(connection, () => copyRows(connection, batch, now, past), COMMENT),
      ),
    )
  return [...errors.values()]
}

/** A counter's value on a leaderboard. Undefined: it should not be there. */
type ListedValue = Omit<Move, 'before' | 'after'> & { value: number | undefined }

type OwnedCounter = Record<'id' | 'namespaceId', number>

/**
 * Copies the present state of counters to the leaderboards, within a transaction, and removes those that were deleted.
 * Locks their namespaces first: so one copy after another reads and writes, and all rows are counted in their blocks.
 */
export async function copyRows(
  connection: Connection,
  ids: readonly number[],
  now: Date,
  past: number,
): Promise<void> {
  const idList = list(ids, integer)
  const owned = await select<OwnedCounter>(
    connection,
    `select id, namespace_id as namespaceId from counter where id in (${idList})${COMMENT}`,
  )
  const present = new Set(owned.map(({ id }) => id))
  const deleted = ids.filter((id) => !present.has(id))
  const owners = [...owned, ...(await readRows(connection, deleted))]
  if (owners.length === 0) return
  const namespaces = await lockNamespaces(connection, [
    ...new Set(owners.map(({ namespaceId }) => namespaceId)),
  ])
  // Again: another copy may have removed them before their namespaces were locked.
  const removed = await readRows(connection, deleted)
  const totals = await readTotals(connection, owned, namespaces, now, past)
  const keys = new Set(totals.map(({ periodKey }) => periodKey))
  const rowsBefore = [...removed, ...(await readRows(connection, [...present], [...keys]))]
  await connection.query(copyValues(idList))
  const values = await readRows(connection, [...present], [])
  const textOf = ({ id, periodKey }: Omit<ListedValue, 'value'>) => `${id} ${periodKey}`
  const valuesBefore = new Map(rowsBefore.map((row) => [textOf(row), row.value]))
  const wanted = [...removed.map((row) => ({ ...row, value: undefined })), ...values, ...totals]
  const moves = wanted.flatMap((row): Move | [] => {
    const { id, namespaceId, periodKey, value: after } = row
    const before = valuesBefore.get(textOf(row))
    return before === after ? [] : { id, namespaceId, periodKey, before, after }
  })
  await writeMoves(connection, moves)
  await countMoves(connection, moves)
}

/** Reads counters' rows on the leaderboards: on that of all time, and on those of some periods, by default of all. */
async function readRows(connection: Connection, ids: readonly number[], periodKeys?: readonly number[]) {
  if (ids.length === 0) return []
  const isOne = `counter_id in (${list(ids, integer)})`
  const selects = [
    `select counter_id as id, namespace_id as namespaceId, cast(${ALL_TIME} as unsigned) as periodKey, value
       from leaderboard force index (primary)
      where ${isOne}`,
  ]
  if (periodKeys?.length !== 0)
    selects.push(
      `select counter_id, namespace_id, period_key, value
       from leaderboard_period force index (primary)
      where ${isOne} and ${periodKeys ? `period_key in (${list(periodKeys, integer)})` : 'true'}`,
    )
  return select<ListedValue & { value: number }>(connection, selects.join('\nunion all\n'))
}

/** Writes what `copyValues` does not: totals, and removals. */
async function writeMoves(connection: Connection, moves: readonly Move[]): Promise<void> {
  const removed = moves.filter(({ after }) => after === undefined)
  for (const [periodKey, rows] of groupBy(removed, ({ periodKey }) => periodKey)) {
    const { table, isOn } = rowsOf(periodKey)
    const ids = list(rows, ({ id }) => integer(id))
    await connection.query(`delete r from ${table} r where r.counter_id in (${ids}) and ${isOn}`)
  }
  const written = moves.flatMap(({ id, periodKey, namespaceId, after }) =>
    periodKey === ALL_TIME || after === undefined ? [] : `(${id}, ${periodKey}, ${namespaceId}, ${after})`,
  )
  if (written.length > 0)
    await connection.query(
      `insert into leaderboard_period (counter_id, period_key, namespace_id, value)
       values ${written.join(', ')}
       on duplicate key update value = values(value)`,
    )
}

/**
 * Processes of earlier versions copy without the lock. If two copies run at once, the newer state wins; for equal states
 * the later `updated_at`, as a change by 0 does not raise the revision.
 */
function copyValues(idList: string): string {
  return `insert into leaderboard (counter_id, namespace_id, value, updated_at, revision)
     select c.id, c.namespace_id, ${VALUE}, coalesce(${UPDATED_AT}, ${EPOCH}), ${REVISION}
       from counter c
       join counter_value v on ${JOIN_VALUE}
      where c.id in (${idList}) and ${COUNTER_EXISTS}
     on duplicate key update
       value = if(values(revision) > leaderboard.revision, values(value), leaderboard.value),
       updated_at = case
         when values(revision) > leaderboard.revision then values(updated_at)
         when values(revision) = leaderboard.revision then greatest(values(updated_at), leaderboard.updated_at)
         else leaderboard.updated_at
       end,
       revision = greatest(values(revision), leaderboard.revision)`
}

/** Locks namespaces, and returns the periods of their leaderboards. */
async function lockNamespaces(
  connection: Connection,
  ids: readonly number[],
): Promise<Map<number, Period[]>> {
  const rows = await select<{ id: number; leaderboards: Buffer }>(
    connection,
    `select id, leaderboards
       from namespace force index (primary)
      where id in (${list(ids, integer)})
      order by id
        for update`,
  )
  return new Map(rows.map(({ id, leaderboards }) => [id, leaderboardsIn(leaderboards)]))
}

type CopiedTotal = Record<'id' | 'period' | 'start', number> & { value: number | string }

/** Reads what was added in the latest periods of which counters' namespaces have leaderboards. */
async function readTotals(
  connection: Connection,
  owned: readonly OwnedCounter[],
  namespaces: ReadonlyMap<number, readonly Period[]>,
  now: Date,
  past: number,
): Promise<ListedValue[]> {
  const listed = owned.filter(({ namespaceId }) => namespaces.get(namespaceId)?.length)
  if (listed.length === 0) return []
  const idList = list(listed, ({ id }) => integer(id))
  const counters = await select<DefinitionRow & OwnedCounter>(
    connection,
    `select c.id, c.namespace_id as namespaceId, ${DEFINITION} from counter c where c.id in (${idList})`,
  )
  const chosen = new Set(listed.flatMap(({ namespaceId }) => namespaces.get(namespaceId) ?? []))
  const selects = [...chosen].map((period) => {
    // Also those of an hour that the clock repeats, and those recorded in another time zone.
    const from = startSecond(now.getTime() - (past + 3) * LONGEST_MS[period])
    return selectTotals(idList, period, from)
  })
  const totals = groupBy(await select<CopiedTotal>(connection, selects.join('\nunion all\n')), ({ id }) => id)
  return counters.flatMap(({ id, namespaceId, ...row }) => {
    const { timeZone, periods } = definitionIn(row)
    return (namespaces.get(namespaceId) ?? []).flatMap((period) => {
      const keys = latestKeys(timeZone, period, now.getTime(), past)
      // In an earlier time zone of the counter, the next one may have begun: its row there is removed.
      const next = calendarOf(timeZone).bucketAt(period, now.getTime()).end
      const sums = new Map([periodKeyOf(period, timeZone, new Date(next)), ...keys].map((key) => [key, 0]))
      const tracked = periods.find((each) => each.period === period)
      for (const { period: code, start, value } of totals.get(id) ?? []) {
        if (code !== PERIOD_CODES[period] || !tracked || 1000 * start < (tracked.since ?? 0)) continue
        const at = instantOf(calendarOf(timeZone), period, 1000 * start)
        const key = periodKeyOf(period, timeZone, new Date(at))
        const sum = sums.get(key)
        if (sum !== undefined) sums.set(key, sum + Number(value))
      }
      return [...sums].map(([periodKey, sum]) => {
        // A total beyond the safe range could not be shown.
        const value = sum !== 0 && Number.isSafeInteger(sum) ? sum : undefined
        return { id, namespaceId, periodKey, value }
      })
    })
  })
}

/** Selects the totals of a period since a start. Each may be in several parts: the history, and the columns of slots. */
function selectTotals(idList: string, period: Period, from: string): string {
  const [{ start, added }, code] = [COLUMNS[period], PERIOD_CODES[period]]
  return `select counter_id as id, cast(${code} as unsigned) as period, ${start} as start, cast(sum(${added}) as signed) as value
       from counter_value force index (primary)
      where counter_id in (${idList}) and ${start} >= ${from}
      group by counter_id, ${start}
     union all
     select counter_id, period, start, value
       from counter_history force index (primary)
      where counter_id in (${idList}) and period = ${code} and start >= ${from}`
}

/** The scheduled jobs of leaderboards. */
export const leaderboardJobs: readonly ScheduledJob[] = [
  // At start, as the process that this one replaces may have been killed.
  { name: 'scan leaderboard', everyS: 600, isDueAtStart: true, run: scanLeaderboard },
  { name: 'tend leaderboards', everyS: 10, run: tendLeaderboards },
]

/** Fills new leaderboards of periods, and splits large blocks: a part of each, as others wait. */
async function tendLeaderboards(context: JobContext): Promise<void> {
  if ((await readUnfilled(context)).length > 0) await scanLeaderboard(context)
  const large = await context.database.select<Leaderboard & { from: number }>(
    `select namespace_id as namespaceId, period_key as periodKey, from_value as \`from\`
       from leaderboard_block
      where counters > ${MAX_BLOCK}`,
  )
  for (const { from, ...leaderboard } of large) await layOutPart(context, leaderboard, from)
}

/** Of a namespace with leaderboards that lack counters which existed before. Table alias: n. */
const IS_UNFILLED = 'n.leaderboards <> n.filled_leaderboards'

function readUnfilled({ database }: JobContext) {
  return database.select<{ id: number; leaderboards: Buffer }>(
    `select n.id, n.leaderboards from namespace n where ${IS_UNFILLED}`,
  )
}

/** Ids per statement of a scan: takes about 20 ms. */
const PAGE = 10_000

/**
 * Scans all counters for rows that were not copied to the leaderboards, and for copies of deleted counters; then counts
 * the leaderboards, and deletes those that are no longer kept. A failure stops nothing else.
 *
 * @throws the first failure, at the end
 */
async function scanLeaderboard(context: JobContext): Promise<void> {
  const { database, shouldContinue } = context
  const failures: unknown[] = []
  const onFailure = (error: unknown) => void failures.push(error)
  const unfilled = await readUnfilled(context)
  const [last] = await database.select<{ id: number | null }>('select max(id) as id from counter')
  // A counter that cannot be copied is on no leaderboard, and delays none.
  const faults: Error[] = []
  for (let from = 0; from < (last?.id ?? 0) && shouldContinue(); from += PAGE)
    await scanPage(context, from).then((errors) => faults.push(...errors), onFailure)
  if (failures.length === 0 && shouldContinue()) {
    for (const { id, leaderboards } of unfilled) {
      // Unless other leaderboards were requested meanwhile.
      await database.withRetry((connection) =>
        connection.query(
          `update namespace
              set filled_leaderboards = leaderboards
            where id = ${integer(id)} and leaderboards = ${bytes(leaderboards)}`,
        ),
      )
    }
  }
  const leaderboards = await database.select<Leaderboard>(
    `select distinct namespace_id as namespaceId, cast(${ALL_TIME} as unsigned) as periodKey
       from leaderboard
     union
     select namespace_id, period_key
       from leaderboard_block
      group by namespace_id, period_key
     having count(*) > 1`,
  )
  for (const leaderboard of leaderboards) {
    let next: number | undefined = LOWEST
    while (next !== undefined && shouldContinue())
      next = await layOutPart(context, leaderboard, next).catch(onFailure)
  }
  await sweepPast(context).catch(onFailure)
  for (const error of [...failures, ...faults]) throw error
}

/** Scans a page of ids above `from`: also all counters of namespaces with leaderboards to be filled. */
async function scanPage({ database, now }: JobContext, from: number): Promise<Error[]> {
  const isIn = (id: string) => `${id} > ${integer(from)} and ${id} <= ${integer(from + PAGE)}`
  // A copy that runs while a counter is deleted may recreate its row.
  const found = await database.select<{ id: number }>(
    `select c.id
       from counter c
       join namespace n on n.id = c.namespace_id
       join counter_value v on ${JOIN_VALUE}
       left join leaderboard r on r.counter_id = c.id
      where ${isIn('c.id')} and ${COUNTER_EXISTS}
        and (${REVISION} > coalesce(r.revision, 0) or ${IS_UNFILLED})
     union
     select r.counter_id
       from leaderboard r
       left join counter c on c.id = r.counter_id
      where ${isIn('r.counter_id')} and c.id is null`,
  )
  const ids = found.map(({ id }) => id)
  return copyToLeaderboard(database, ids, now, PAST_LEADERBOARDS)
}

function layOutPart({ database }: JobContext, leaderboard: Leaderboard, from: number) {
  return database.withRetry((connection) =>
    inTransaction(connection, async () => {
      await lockNamespaces(connection, [leaderboard.namespaceId])
      return layOut(connection, leaderboard, from)
    }),
  )
}

/** Deletes the leaderboards of periods so long past that nobody writes them. */
async function sweepPast(context: JobContext): Promise<void> {
  const isPast = PERIODS.map((period) => {
    // A zone may be a day behind UTC. Keys of the same period have as many digits.
    const keys = latestKeys('UTC', period, context.now.getTime() - DAY_MS, PAST_LEADERBOARDS)
    const oldest = Math.min(...keys)
    return `period_key between ${10 ** (String(oldest).length - 1)} and ${oldest - 1}`
  })
  const past = await context.database.select<Leaderboard>(
    `select distinct namespace_id as namespaceId, period_key as periodKey
       from leaderboard_block
      where ${isPast.join(' or ')}`,
  )
  for (const leaderboard of past) {
    const rows = `select r.counter_id, r.period_key ${fromRowsOf(leaderboard)}`
    await deleteFound(context, rows, eachFrom('leaderboard_period'))
    const blocks = `select namespace_id, period_key, from_value from leaderboard_block where ${areBlocksOf(leaderboard)}`
    await deleteFound(context, blocks, eachFrom('leaderboard_block'))
  }
}
