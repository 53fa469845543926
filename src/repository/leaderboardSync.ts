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
import { bytes, EPOCH, integer, list, select } from '../mysql/sql.ts'
import { DAY_MS, isPeriodKey, PERIODS, type Period } from '../rules/calendar.ts'
import type { Definition } from '../rules/counter.ts'
import {
  ALL_TIME,
  keyOfTotal,
  type LatestPeriods,
  type Leaderboard,
  latestPeriods,
  PAST_LEADERBOARDS,
} from '../rules/leaderboards.ts'
import { deleteFound, eachFrom, type JobContext, type ScheduledJob } from './jobs.ts'
import {
  areBlocksOf,
  countMoves,
  fromRowsOf,
  LOWEST,
  layOut,
  MAX_BLOCK,
  type Move,
} from './leaderboardBlocks.ts'
import { leaderboardsIn } from './namespaces.ts'

const COMMENT = ' /* leaderboard */'

/** Rows of a copy. */
const BATCH = 1000

interface CopyOptions {
  /** The instant whose periods are the current ones. */
  now: Date
  /** How many past periods are copied. By default the last one, whose end may not be copied yet. */
  past?: number
}

/** Copies counters' rows, whose ids are in any order. */
export async function copyToLeaderboard(database: Database, ids: readonly number[], options: CopyOptions) {
  const ordered = ids.toSorted((a, b) => a - b)
  for (let from = 0; from < ordered.length; from += BATCH) {
    const batch = ordered.slice(from, from + BATCH)
    await database.withRetry((connection) =>
      inTransaction(connection, () => copyRows(connection, batch, options), COMMENT),
    )
  }
}

/**
 * Copies the present state of counters to the leaderboards, within a transaction, and removes those that were deleted.
 * Locks their namespaces first: so one copy after another reads and writes, and all rows are counted in their blocks.
 *
 * @param ids in ascending order
 */
export async function copyRows(
  connection: Connection,
  ids: readonly number[],
  options: CopyOptions,
): Promise<void> {
  const idList = list(ids, integer)
  const owned = await select<{ id: number; namespaceId: number }>(
    connection,
    `select id, namespace_id as namespaceId from counter where id in (${idList})${COMMENT}`,
  )
  const namespaceOf = new Map(owned.map(({ id, namespaceId }) => [id, namespaceId]))
  const deleted = ids.filter((id) => !namespaceOf.has(id))
  const owners = [...owned, ...(await readRows(connection, deleted))]
  if (owners.length === 0) return
  const namespaces = await lockNamespaces(connection, [
    ...new Set(owners.map(({ namespaceId }) => namespaceId)),
  ])
  const valuesBefore = await readValues(connection, idList)
  await connection.query(copyValues(idList))
  const moves = [...(await readValues(connection, idList))].flatMap(([id, after]): Move[] => {
    const [before, namespaceId] = [valuesBefore.get(id), namespaceOf.get(id)]
    return before === after || namespaceId === undefined
      ? []
      : [{ namespaceId, periodKey: ALL_TIME, before, after }]
  })
  const listed = owned.filter(({ namespaceId }) => namespaces.get(namespaceId)?.length)
  if (listed.length > 0) moves.push(...(await copyTotals(connection, listed, namespaces, options)))
  await countMoves(connection, [...moves, ...(await removeRows(connection, deleted))])
}

/** Reads values on the leaderboards of all time, by the ids of counters. */
async function readValues(connection: Connection, idList: string): Promise<Map<number, number>> {
  const rows = await select<{ id: number; value: number }>(
    connection,
    `select counter_id as id, value from leaderboard where counter_id in (${idList})`,
  )
  return new Map(rows.map(({ id, value }) => [id, value]))
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

/** Reads the rows of deleted counters on all leaderboards. */
async function readRows(connection: Connection, deleted: readonly number[]) {
  if (deleted.length === 0) return []
  const isOne = `counter_id in (${list(deleted, integer)})`
  return select<Leaderboard & { before: number }>(
    connection,
    `select namespace_id as namespaceId, cast(${ALL_TIME} as unsigned) as periodKey, value as \`before\`
       from leaderboard
      where ${isOne}
     union all
     select namespace_id, period_key, value from leaderboard_period where ${isOne}`,
  )
}

async function removeRows(connection: Connection, deleted: readonly number[]): Promise<Move[]> {
  // Again: another copy may have removed them before their namespaces were locked.
  const rows = await readRows(connection, deleted)
  if (rows.length > 0)
    for (const table of ['leaderboard', 'leaderboard_period'])
      await connection.query(`delete from ${table} where counter_id in (${list(deleted, integer)})`)
  return rows.map((row) => ({ ...row, after: undefined }))
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

/** A counter, with what it should have on the leaderboards of some periods, by their keys. */
interface ListedCounter {
  definition: Definition
  latest: ReadonlyMap<Period, LatestPeriods>
  values: Map<number, number>
}

/** Copies what was added in the latest periods to the leaderboards that counters' namespaces have. */
async function copyTotals(
  connection: Connection,
  owned: readonly { id: number; namespaceId: number }[],
  namespaces: ReadonlyMap<number, readonly Period[]>,
  { now, past = 1 }: CopyOptions,
): Promise<Move[]> {
  const idList = list(owned, ({ id }) => integer(id))
  const rows = await select<DefinitionRow & { id: number; namespaceId: number }>(
    connection,
    `select c.id, c.namespace_id as namespaceId, ${DEFINITION} from counter c where c.id in (${idList})`,
  )
  const counters = new Map<number, ListedCounter>()
  for (const { id, namespaceId, ...row } of rows) {
    const definition = definitionIn(row)
    const latestOf = (period: Period) => latestPeriods(definition.timeZone, period, now.getTime(), past)
    const latest = new Map(namespaces.get(namespaceId)?.map((period) => [period, latestOf(period)]))
    const keys = [...latest.values()].flatMap(({ keys }) => [...keys])
    counters.set(id, { definition, latest, values: new Map(keys.map((key) => [key, 0])) })
  }
  const totals = await select<Record<'id' | 'period' | 'start', number> & { value: number | string }>(
    connection,
    PERIODS.flatMap((period) => {
      const starts = [...counters.values()].flatMap(({ latest }) => latest.get(period)?.from ?? [])
      return starts.length > 0 ? [selectTotals(idList, period, startSecond(Math.min(...starts)))] : []
    }).join('\nunion all\n'),
  )
  for (const { id, period, start, value } of totals) {
    const { definition, values } = counters.get(id) ?? {}
    const tracked = definition?.periods.find((each) => PERIOD_CODES[each.period] === period)
    if (!definition || !tracked || 1000 * start < (tracked.since ?? 0)) continue
    const key = keyOfTotal(definition.timeZone, tracked.period, 1000 * start)
    const sum = values?.get(key)
    if (sum !== undefined) values?.set(key, sum + Number(value))
  }
  return writeTotals(connection, rows, counters)
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

/** Writes the totals that differ, and removes those of 0, as of what is not tracked. */
async function writeTotals(
  connection: Connection,
  owned: readonly { id: number; namespaceId: number }[],
  counters: ReadonlyMap<number, ListedCounter>,
): Promise<Move[]> {
  const keys = new Set([...counters.values()].flatMap(({ values }) => [...values.keys()]))
  const rows = await select<Record<'id' | 'periodKey' | 'value', number>>(
    connection,
    `select counter_id as id, period_key as periodKey, value
       from leaderboard_period force index (primary)
      where counter_id in (${list(owned, ({ id }) => integer(id))}) and period_key in (${list([...keys], integer)})`,
  )
  const present = new Map(rows.map(({ id, periodKey, value }) => [`${id} ${periodKey}`, value]))
  const moves: Move[] = []
  const written: string[] = []
  for (const { id, namespaceId } of owned) {
    for (const [periodKey, value] of counters.get(id)?.values ?? []) {
      const before = present.get(`${id} ${periodKey}`)
      // A total beyond the safe range could not be shown.
      const after = value !== 0 && Number.isSafeInteger(value) ? value : undefined
      if (after === before) continue
      moves.push({ namespaceId, periodKey, before, after })
      if (after !== undefined) written.push(`(${id}, ${periodKey}, ${namespaceId}, ${after})`)
      else
        await connection.query(
          `delete from leaderboard_period where counter_id = ${integer(id)} and period_key = ${integer(periodKey)}`,
        )
    }
  }
  if (written.length > 0)
    await connection.query(
      `insert into leaderboard_period (counter_id, period_key, namespace_id, value)
       values ${written.join(', ')}
       on duplicate key update value = values(value)`,
    )
  return moves
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

/** Namespaces with leaderboards that lack counters which existed before. */
function readUnfilled({ database }: JobContext) {
  return database.select<{ id: number; leaderboards: Buffer }>(
    'select id, leaderboards from namespace where leaderboards <> filled_leaderboards',
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
  const unfilledIds = unfilled.map(({ id }) => id)
  const [last] = await database.select<{ id: number | null }>('select max(id) as id from counter')
  for (let from = 0; from < (last?.id ?? 0) && shouldContinue(); from += PAGE)
    await scanPage(context, from, unfilledIds).catch(onFailure)
  if (failures.length === 0 && shouldContinue()) {
    for (const { id, leaderboards } of unfilled) {
      // Unless others were asked for meanwhile.
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
  if (failures.length > 0) throw failures[0]
}

/** Scans a page of ids above `from`. Copies all counters of some namespaces. */
async function scanPage(
  { database, now }: JobContext,
  from: number,
  unfilled: readonly number[],
): Promise<void> {
  const isIn = (id: string) => `${id} > ${integer(from)} and ${id} <= ${integer(from + PAGE)}`
  // A copy that runs while a counter is deleted may recreate its row.
  const found = await database.select<{ id: number }>(
    `select c.id
       from counter c
       join counter_value v on ${JOIN_VALUE}
       left join leaderboard r on r.counter_id = c.id
      where ${isIn('c.id')} and ${COUNTER_EXISTS}
        and (${REVISION} > coalesce(r.revision, 0) or c.namespace_id in (${list([0, ...unfilled], integer)}))
     union
     select r.counter_id
       from leaderboard r
       left join counter c on c.id = r.counter_id
      where ${isIn('r.counter_id')} and c.id is null`,
  )
  const past = unfilled.length > 0 ? PAST_LEADERBOARDS : 1
  const ids = found.map(({ id }) => id)
  await copyToLeaderboard(database, ids, { now, past })
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
  const leaderboards = await context.database.select<Leaderboard>(
    `select distinct namespace_id as namespaceId, period_key as periodKey
       from leaderboard_block
      where period_key <> ${ALL_TIME}`,
  )
  // A zone may be a day behind UTC.
  const now = context.now.getTime() - DAY_MS
  for (const leaderboard of leaderboards) {
    const period = PERIODS.find((period) => isPeriodKey(leaderboard.periodKey, period))
    if (!period) throw new Error(`Unknown period in the database: ${leaderboard.periodKey}`)
    const { keys } = latestPeriods('UTC', period, now, PAST_LEADERBOARDS)
    if (leaderboard.periodKey >= Math.min(...keys)) continue
    const rows = `select r.counter_id, r.period_key ${fromRowsOf(leaderboard)}`
    await deleteFound(context, rows, eachFrom('leaderboard_period'))
    const blocks = `select namespace_id, period_key, from_value from leaderboard_block where ${areBlocksOf(leaderboard)}`
    await deleteFound(context, blocks, eachFrom('leaderboard_block'))
  }
}
