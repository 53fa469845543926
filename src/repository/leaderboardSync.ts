import type { ResultSetHeader } from 'mysql2'
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
import { bytes, EPOCH, instant, integer, list, select } from '../mysql/sql.ts'
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
import type { JobContext, ScheduledJob } from './jobs.ts'
import { areBlocksOf, countMoves, LOWEST, layOut, MAX_BLOCK, type Move, PART } from './leaderboardBlocks.ts'
import { leaderboardsText, parseLeaderboards } from './namespaces.ts'

/** Rows of a copy. */
const BATCH = 1000

interface CopyOptions {
  /** The instant whose periods are the current ones. */
  now: Date
  /** How many past periods are copied, too. By default one: the last changes in it may not be copied yet. */
  past?: number
}

/** Copies counters' rows, whose ids are in any order. */
export async function copyToLeaderboard(database: Database, ids: readonly number[], options: CopyOptions) {
  const ordered = ids.toSorted((a, b) => a - b)
  for (let from = 0; from < ordered.length; from += BATCH) {
    const batch = ordered.slice(from, from + BATCH)
    await database.withRetry((connection) =>
      inTransaction(connection, () => copyRows(connection, batch, options)),
    )
  }
}

type CopiedRow = DefinitionRow & {
  id: number
  namespaceId: number
  value: number
  revision: number
  updated_at: Date | null
  before: number | null
  revision_before: number | null
  updated_before: Date | null
}

/**
 * Copies the present state of counters to their leaderboards, within a transaction, and removes those that don't exist.
 * Locks the rows of their namespaces first: so states are read and written by one copy after another, and none is older
 * than what it replaces.
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
    `select id, namespace_id as namespaceId from counter where id in (${idList})`,
  )
  const existing = new Set(owned.map(({ id }) => id))
  const deleted = ids.filter((id) => !existing.has(id))
  const removed = await readRows(connection, deleted)
  const namespaces = await lockNamespaces(
    connection,
    [...owned, ...removed].map(({ namespaceId }) => namespaceId),
  )
  const rows = await select<CopiedRow>(
    connection,
    `select c.id, c.namespace_id as namespaceId, ${DEFINITION},
            ${VALUE} as value, ${UPDATED_AT} as updated_at, ${REVISION} as revision,
            r.value as \`before\`, nullif(r.updated_at, ${EPOCH}) as updated_before, r.revision as revision_before
       from counter c
       join counter_value v on ${JOIN_VALUE}
       left join leaderboard r on r.counter_id = c.id
      where c.id in (${idList}) and ${COUNTER_EXISTS}
      order by c.id`,
  )
  const moves = [...(await removeRows(connection, deleted)), ...(await writeValues(connection, rows))]
  const listed = rows.flatMap(({ id, namespaceId, ...row }) => {
    const periods = namespaces.get(namespaceId) ?? []
    return periods.length > 0 ? [{ id, namespaceId, definition: definitionIn(row), periods }] : []
  })
  if (listed.length > 0) moves.push(...(await copyTotals(connection, listed, options)))
  await countMoves(connection, moves)
}

/** Locks namespaces, whose ids may repeat, and returns the periods of their leaderboards. */
async function lockNamespaces(
  connection: Connection,
  ids: readonly number[],
): Promise<Map<number, Period[]>> {
  if (ids.length === 0) return new Map()
  const rows = await select<{ id: number; leaderboards: Buffer }>(
    connection,
    `select id, leaderboards
       from namespace force index (primary)
      where id in (${list([...new Set(ids)], integer)})
      order by id
        for update`,
  )
  return new Map(
    rows.map(({ id, leaderboards }) => [id, parseLeaderboards(leaderboards).map(({ period }) => period)]),
  )
}

/** The tables of leaderboards, with the period keys of their rows. */
const TABLES = { leaderboard: `cast(${ALL_TIME} as unsigned)`, leaderboard_period: 'period_key' }

/** Reads the rows of counters on all leaderboards. */
async function readRows(connection: Connection, ids: readonly number[]) {
  if (ids.length === 0) return []
  const selects = Object.entries(TABLES).map(
    ([table, key]) =>
      `select namespace_id as namespaceId, ${key} as periodKey, value as \`before\`
       from ${table}
      where counter_id in (${list(ids, integer)})`,
  )
  return select<Leaderboard & { before: number }>(connection, selects.join(' union all '))
}

/** Removes the rows of counters from all leaderboards. */
async function removeRows(connection: Connection, ids: readonly number[]): Promise<Move[]> {
  // Again: another copy may have removed them before their namespaces were locked.
  const rows = await readRows(connection, ids)
  if (rows.length > 0)
    for (const table of Object.keys(TABLES))
      await connection.query(`delete from ${table} where counter_id in (${list(ids, integer)})`)
  return rows.map((row) => ({ ...row, after: undefined }))
}

/** Writes the values that changed. */
async function writeValues(connection: Connection, rows: readonly CopiedRow[]): Promise<Move[]> {
  const changed = rows.filter(
    (row) =>
      row.revision !== row.revision_before ||
      row.value !== row.before ||
      row.updated_at?.getTime() !== row.updated_before?.getTime(),
  )
  if (changed.length === 0) return []
  await connection.query(
    `insert into leaderboard (counter_id, namespace_id, value, updated_at, revision)
     values ${changed.map(({ id, namespaceId, value, updated_at, revision }) => `(${id},${namespaceId},${value},${updated_at ? instant(updated_at) : EPOCH},${revision})`).join(', ')}
     on duplicate key update value = values(value), updated_at = values(updated_at), revision = values(revision)`,
  )
  return changed
    .filter(({ value, before }) => value !== before)
    .map(({ namespaceId, value, before }) => ({
      namespaceId,
      periodKey: ALL_TIME,
      before: before ?? undefined,
      after: value,
    }))
}

/** A counter, and the periods for which its namespace has leaderboards. */
interface ListedCounter {
  id: number
  namespaceId: number
  definition: Definition
  periods: readonly Period[]
}

/** Copies what was added in the latest periods. */
async function copyTotals(
  connection: Connection,
  counters: readonly ListedCounter[],
  { now, past = 1 }: CopyOptions,
): Promise<Move[]> {
  const cached = new Map<string, LatestPeriods>()
  const latestOf = (period: Period, { timeZone }: Definition) => {
    const text = `${period} ${timeZone}`
    const latest = cached.get(text) ?? latestPeriods(timeZone, period, now.getTime(), past)
    cached.set(text, latest)
    return latest
  }
  // What was added, by the keys of all periods that are copied.
  const totals = new Map<ListedCounter, Map<number, number>>()
  const selects: string[] = []
  for (const counter of counters) {
    const keys = counter.periods.flatMap((period) => [...latestOf(period, counter.definition).keys])
    totals.set(counter, new Map(keys.map((key) => [key, 0])))
  }
  for (const period of PERIODS) {
    const tracking = counters.filter(
      ({ periods, definition }) => periods.includes(period) && trackedIn(definition, period),
    )
    if (tracking.length === 0) continue
    const from = Math.min(...tracking.map(({ definition }) => latestOf(period, definition).from))
    selects.push(selectTotals(tracking, period, from))
  }
  const byId = new Map(counters.map((counter) => [counter.id, counter]))
  const rows =
    selects.length === 0 ? [] : await select<ListedTotal>(connection, selects.join('\nunion all\n'))
  for (const { id, period: code, start, value } of rows) {
    const counter = byId.get(id)
    const period = PERIODS.find((name) => PERIOD_CODES[name] === code)
    if (!counter || !period) throw new Error(`The total of another counter ${id}, or period ${code}`)
    const { definition } = counter
    const sums = totals.get(counter)
    const key = keyOfTotal(definition.timeZone, period, 1000 * start)
    const sum = sums?.get(key)
    if (sum !== undefined && 1000 * start >= (trackedIn(definition, period)?.since ?? 0))
      sums?.set(key, sum + Number(value))
  }
  return writeTotals(connection, totals)
}

/** The total of a period, or a part of it: there may be several such rows. */
interface ListedTotal extends Record<'id' | 'period' | 'start', number> {
  value: number | string
}

function trackedIn({ periods }: Definition, period: Period) {
  return periods.find((tracked) => tracked.period === period)
}

/** Selects the totals of a period that started since an instant: what the history has, and the columns. */
function selectTotals(counters: readonly ListedCounter[], period: Period, from: number): string {
  const ids = list(counters, ({ id }) => integer(id))
  const { start, added } = COLUMNS[period]
  const code = PERIOD_CODES[period]
  return `select counter_id as id, cast(${code} as unsigned) as period, ${start} as start, cast(sum(${added}) as signed) as value
       from counter_value force index (primary)
      where counter_id in (${ids}) and ${start} >= ${startSecond(from)}
      group by counter_id, ${start}
     union all
     select counter_id, period, start, value
       from counter_history force index (primary)
      where counter_id in (${ids}) and period = ${code} and start >= ${startSecond(from)}`
}

/** Writes the totals that changed, by the keys of their periods, and removes those that are 0. */
async function writeTotals(
  connection: Connection,
  totals: ReadonlyMap<ListedCounter, ReadonlyMap<number, number>>,
): Promise<Move[]> {
  const keys = new Set([...totals.values()].flatMap((sums) => [...sums.keys()]))
  const present = await select<{ id: number; periodKey: number; value: number }>(
    connection,
    `select counter_id as id, period_key as periodKey, value
       from leaderboard_period force index (primary)
      where counter_id in (${list([...totals.keys()], ({ id }) => integer(id))})
        and period_key in (${list([...keys], integer)})`,
  )
  const presentValues = new Map(present.map(({ id, periodKey, value }) => [`${id} ${periodKey}`, value]))
  const written: string[] = []
  const removed: string[] = []
  const moves: Move[] = []
  for (const [{ id, namespaceId }, sums] of totals) {
    for (const [periodKey, sum] of sums) {
      const before = presentValues.get(`${id} ${periodKey}`)
      // One beyond the safe range can't be shown.
      const after = sum !== 0 && Number.isSafeInteger(sum) ? sum : undefined
      if (after === before) continue
      if (after === undefined) removed.push(`counter_id = ${id} and period_key = ${periodKey}`)
      else written.push(`(${id}, ${periodKey}, ${namespaceId}, ${after})`)
      moves.push({ namespaceId, periodKey, before, after })
    }
  }
  if (written.length > 0)
    await connection.query(
      `insert into leaderboard_period (counter_id, period_key, namespace_id, value)
       values ${written.join(', ')}
       on duplicate key update value = values(value)`,
    )
  for (const key of removed) await connection.query(`delete from leaderboard_period where ${key}`)
  return moves
}

/** The scheduled jobs of leaderboards. */
export const leaderboardJobs: readonly ScheduledJob[] = [
  // At start, as the process that this one replaces may have been killed.
  { name: 'scan leaderboard', everyS: 600, isDueAtStart: true, run: scanLeaderboard },
  { name: 'split leaderboard blocks', everyS: 60, run: splitBlocks },
  { name: 'fill leaderboards', everyS: 10, run: fillLeaderboards },
]

/** Ids per statement of a scan: takes about 20 ms. */
const PAGE = 10_000

/**
 * Scans all counters for rows that were not copied to the leaderboard, and for copies of deleted counters; then counts
 * the leaderboards, and removes those that are no longer kept. A failure stops nothing else.
 *
 * @throws the first failure, at the end
 */
async function scanLeaderboard(context: JobContext): Promise<void> {
  const { database, shouldContinue } = context
  const failures: unknown[] = []
  const onFailure = (error: unknown) => void failures.push(error)
  const [last] = await database.select<{ id: number | null }>('select max(id) as id from counter')
  for (let from = 0; from < (last?.id ?? 0) && shouldContinue(); from += PAGE)
    await scanPage(context, from, from + PAGE).catch(onFailure)
  const namespaces = await database.select<{ id: number }>(
    'select distinct namespace_id as id from leaderboard',
  )
  for (const { id } of namespaces)
    await layOutAll(context, { namespaceId: id, periodKey: ALL_TIME }).catch(onFailure)
  await tidyPeriods(context).catch(onFailure)
  if (failures.length > 0) throw failures[0]
}

/** Scans the ids above `from` and up to `to`. */
async function scanPage({ database, now }: JobContext, from: number, to: number): Promise<void> {
  const isIn = (id: string) => `${id} > ${integer(from)} and ${id} <= ${integer(to)}`
  // A copy that runs while a counter is deleted may recreate its row.
  const orphans = ['leaderboard', 'leaderboard_period'].map(
    (table) => `select r.counter_id
       from ${table} r
       left join counter c on c.id = r.counter_id
      where ${isIn('r.counter_id')} and c.id is null`,
  )
  const found = await database.select<{ id: number }>(
    `select c.id
       from counter c
       join counter_value v on ${JOIN_VALUE}
       left join leaderboard r on r.counter_id = c.id
      where ${isIn('c.id')} and ${COUNTER_EXISTS} and ${REVISION} > coalesce(r.revision, 0)
     union
     ${orphans.join('\nunion\n')}`,
  )
  await copyToLeaderboard(
    database,
    found.map(({ id }) => id),
    { now },
  )
}

/** Splits large blocks. */
async function splitBlocks(context: JobContext): Promise<void> {
  const large = await context.database.select<Leaderboard & Record<'from' | 'counters', number>>(
    `select namespace_id as namespaceId, period_key as periodKey, from_value as \`from\`, counters
       from leaderboard_block
      where counters > ${MAX_BLOCK}`,
  )
  for (const { from, counters, ...leaderboard } of large)
    await layOutAll(context, leaderboard, from, Math.ceil(counters / PART))
}

/** Lays out the blocks of a leaderboard, from one of them on. */
async function layOutAll(
  context: JobContext,
  leaderboard: Leaderboard,
  from = LOWEST,
  maxParts = Number.POSITIVE_INFINITY,
): Promise<void> {
  let next: number | undefined = from
  for (let parts = 0; next !== undefined && parts < maxParts && context.shouldContinue(); parts++) {
    const start: number = next
    next = await withLock(context, leaderboard.namespaceId, (connection) =>
      layOut(connection, leaderboard, start),
    )
  }
}

/** Runs work on leaderboards of a namespace in a transaction, with the periods for which it has some. */
function withLock<T>(
  { database }: JobContext,
  namespaceId: number,
  work: (connection: Connection, periods: readonly Period[]) => Promise<T>,
): Promise<T> {
  return database.withRetry((connection) =>
    inTransaction(connection, async () => {
      const locked = await lockNamespaces(connection, [namespaceId])
      return work(connection, locked.get(namespaceId) ?? [])
    }),
  )
}

/** Lays out leaderboards of periods, and removes those that are no longer kept. */
async function tidyPeriods(context: JobContext): Promise<void> {
  const { database, now, shouldContinue } = context
  const leaderboards = await database.select<Leaderboard & { blocks: number }>(
    `select namespace_id as namespaceId, period_key as periodKey, count(*) as blocks
       from leaderboard_block
      where period_key <> ${ALL_TIME}
      group by namespace_id, period_key`,
  )
  const oldest = new Map(PERIODS.map((period) => [period, oldestKey(period, now)]))
  for (const { blocks, ...leaderboard } of leaderboards) {
    const { namespaceId, periodKey } = leaderboard
    const isKept = (periods: readonly Period[]) =>
      periods.some((period) => isPeriodKey(periodKey, period) && periodKey >= (oldest.get(period) ?? 0))
    let isEmpty = false
    while (!isEmpty && shouldContinue())
      isEmpty = await withLock(context, namespaceId, async (connection, periods) =>
        isKept(periods) ? true : removeLeaderboard(connection, leaderboard),
      )
    if (blocks > 1) await layOutAll(context, leaderboard)
  }
}

/** The oldest key that is kept of a period. A zone may be a day behind UTC. */
function oldestKey(period: Period, now: Date): number {
  return Math.min(...latestPeriods('UTC', period, now.getTime() - DAY_MS, PAST_LEADERBOARDS).keys)
}

/** Removes a leaderboard: its blocks, and some of its rows. Returns whether none are left. */
async function removeLeaderboard(connection: Connection, leaderboard: Leaderboard): Promise<boolean> {
  await connection.query(`delete from leaderboard_block where ${areBlocksOf(leaderboard)}`)
  const { namespaceId, periodKey } = leaderboard
  const [{ affectedRows }] = await connection.query<ResultSetHeader>(
    `delete from leaderboard_period
      where namespace_id = ${integer(namespaceId)} and period_key = ${integer(periodKey)}
      order by value, counter_id
      limit ${BATCH}`,
  )
  return affectedRows < BATCH
}

/** Copies all counters of namespaces to their new leaderboards of periods. */
async function fillLeaderboards(context: JobContext): Promise<void> {
  const { database, now, shouldContinue } = context
  const unfilled = await database.select<{ id: number; leaderboards: Buffer }>(
    `select id, leaderboards from namespace where leaderboards like '%?%'`,
  )
  for (const { id, leaderboards } of unfilled) {
    let last: Buffer | undefined
    do {
      if (!shouldContinue()) return
      const isAfter: string = last ? `and name > ${bytes(last)}` : ''
      const counters: { id: number; name: Buffer }[] = await database.select(
        `select id, name
           from counter force index (counter_name)
          where namespace_id = ${integer(id)} ${isAfter}
          order by name
          limit ${BATCH}`,
      )
      const ids = counters.map((counter) => counter.id)
      await copyToLeaderboard(database, ids, { now, past: PAST_LEADERBOARDS })
      last = counters.at(-1)?.name
    } while (last)
    const filled = parseLeaderboards(leaderboards).map(({ period }) => ({ period, isFilled: true }))
    // Unless others were asked for meanwhile.
    await database.withRetry((connection) =>
      connection.query(
        `update namespace
            set leaderboards = ${bytes(leaderboardsText(filled))}
          where id = ${integer(id)} and leaderboards = ${bytes(leaderboards)}`,
      ),
    )
  }
}
