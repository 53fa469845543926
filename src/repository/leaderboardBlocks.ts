import { isDeepStrictEqual } from 'node:util'
import type { Connection } from '../mysql/pool.ts'
import { groupBy, integer, list, select } from '../mysql/sql.ts'
import { ALL_TIME, type Leaderboard } from '../rules/leaderboards.ts'

/*
 * Places on leaderboards. To count the rows with a higher value takes up to 100 ms among a million. So each leaderboard
 * is divided into blocks of about a thousand rows: a place is 1, and the rows of all blocks above, and those that are
 * counted within one block. That takes 0.5 ms.
 *
 * A block has the rows with its `from_value` or more, up to the next block. The first one has all lower values. Equal
 * values are never split, so a block may be much larger.
 *
 * The rule that always holds: at each commit, `counters` of a block is the number of its rows. Whoever changes rows holds
 * the lock on the namespace's row, from before it reads them.
 *
 * A leaderboard without blocks has not been counted yet.
 */

/** Rows of a block. */
const BLOCK = 1000
/** Larger blocks are split. */
export const MAX_BLOCK = 2 * BLOCK
/** Rows that are laid out in one transaction: takes about 20 ms. */
export const PART = 20_000

/** Below all values. */
export const LOWEST = Number.MIN_SAFE_INTEGER
/** Above all values. */
const HIGHEST = Number.MAX_SAFE_INTEGER + 1

/** The rows of a leaderboard: their table, its index of values, and their condition. */
export function rowsOf({ namespaceId, periodKey }: Leaderboard) {
  const isAllTime = periodKey === ALL_TIME
  const table = isAllTime ? 'leaderboard' : 'leaderboard_period'
  const ofPeriod = isAllTime ? '' : ` and r.period_key = ${integer(periodKey)}`
  return {
    table: `${table} r`,
    byValue: `${table} r force index (${table}_value)`,
    are: `r.namespace_id = ${integer(namespaceId)}${ofPeriod}`,
  }
}

/** The condition of a leaderboard's blocks. */
export function areBlocksOf({ namespaceId, periodKey }: Leaderboard): string {
  return `namespace_id = ${integer(namespaceId)} and period_key = ${integer(periodKey)}`
}

/**
 * An expression for the place of a value; null: its leaderboard has not been counted yet. It has the value as a literal,
 * and the next block as a subquery without references, as otherwise a server would count all higher values.
 */
export function placeOf(leaderboard: Leaderboard, value: number, lowestFirst: boolean): string {
  const { byValue, are } = rowsOf(leaderboard)
  const blocks = areBlocksOf(leaderboard)
  const [own, isBefore] = [integer(value), lowestFirst ? '<=' : '>']
  const next = `(select min(from_value) from leaderboard_block where ${blocks} and from_value > ${own})`
  return `if(exists (select 1 from leaderboard_block where ${blocks}), 1
       + (select coalesce(sum(counters), 0) from leaderboard_block where ${blocks} and from_value ${isBefore} ${own})
       ${lowestFirst ? '-' : '+'} (select count(*)
            from ${byValue}
           where ${are} and r.value ${lowestFirst ? '>=' : '>'} ${own} and r.value < coalesce(${next}, ${HIGHEST})), null)`
}

/** A row that enters a leaderboard, leaves it, or changes its value. Undefined: it is not there. */
export interface Move extends Leaderboard {
  before: number | undefined
  after: number | undefined
}

/** Counts rows that were changed in the same transaction. */
export async function countMoves(connection: Connection, moves: readonly Move[]): Promise<void> {
  if (moves.length === 0) return
  const leaderboards = [...groupBy(moves, keyOf).values()]
  const blocks = await select<Leaderboard & { from: number }>(
    connection,
    `select namespace_id as namespaceId, period_key as periodKey, from_value as \`from\`
       from leaderboard_block
      where ${leaderboards.map(areBlocksOfAll).join(' or ')}
      order by namespace_id, period_key, from_value`,
  )
  const blocksOf = groupBy(blocks, keyOf)
  const changes: string[] = []
  for (const own of leaderboards) {
    const [leaderboard] = own
    const key = keyOf(leaderboard)
    const starts = blocksOf.get(key)?.map(({ from }) => from)
    if (starts) {
      for (const [from, counters] of changesOf(own, starts)) changes.push(`(${key}, ${from}, ${counters})`)
    } else {
      const { byValue, are } = rowsOf(leaderboard)
      await connection.query(
        `insert into leaderboard_block (namespace_id, period_key, from_value, counters)
         select ${key}, ${LOWEST}, count(*) from ${byValue} where ${are}`,
      )
    }
  }
  if (changes.length === 0) return
  await connection.query(
    `insert into leaderboard_block (namespace_id, period_key, from_value, counters)
     values ${changes.join(', ')}
     on duplicate key update counters = counters + values(counters)`,
  )
}

/** The key of a leaderboard, as SQL. */
function keyOf({ namespaceId, periodKey }: Leaderboard): string {
  return `${integer(namespaceId)}, ${integer(periodKey)}`
}

/** The condition of the blocks that have the values of moves on one leaderboard. */
function areBlocksOfAll(moves: readonly [Move, ...Move[]]): string {
  const values = moves.flatMap(({ before, after }) => [before ?? after ?? 0, after ?? before ?? 0])
  const [lowest, highest] = [Math.min(...values), Math.max(...values)].map(integer)
  const blocks = areBlocksOf(moves[0])
  return `${blocks} and from_value <= ${highest} and from_value >= (
            select max(from_value) from leaderboard_block where ${blocks} and from_value <= ${lowest})`
}

/** How much the blocks change, by their starts: those of all blocks are sorted. */
function changesOf(moves: readonly Move[], starts: readonly number[]): Map<number, number> {
  const changes = new Map<number, number>()
  const add = (value: number | undefined, amount: number) => {
    if (value === undefined) return
    const from = blockOf(starts, value)
    const sum = (changes.get(from) ?? 0) + amount
    if (sum === 0) changes.delete(from)
    else changes.set(from, sum)
  }
  for (const { before, after } of moves) {
    add(before, -1)
    add(after, 1)
  }
  return changes
}

/** The start of the block that has a value. */
function blockOf(starts: readonly number[], value: number): number {
  let [low, high] = [0, starts.length - 1]
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if ((starts[middle] ?? value) <= value) low = middle
    else high = middle - 1
  }
  return starts[low] ?? LOWEST
}

interface LeaderboardBlock {
  start: number
  counters: number
}

/**
 * Lays out the blocks of a part of a leaderboard, from the one that has a value: splits, joins and counts them. What it
 * leaves of a block beyond keeps its count, less what was counted here.
 *
 * @returns where the next part starts; undefined: there is none
 */
export async function layOut(
  connection: Connection,
  leaderboard: Leaderboard,
  value: number,
): Promise<number | undefined> {
  const { byValue, are } = rowsOf(leaderboard)
  const blocks = areBlocksOf(leaderboard)
  const one = async (statement: string) =>
    (await select<{ one: number | null }>(connection, statement))[0]?.one
  const start = await one(
    `select max(from_value) as one from leaderboard_block where ${blocks} and from_value <= ${integer(value)}`,
  )
  const from = start ?? LOWEST
  const last = await one(
    `select r.value as one from ${byValue} where ${are} and r.value >= ${integer(from)} order by r.value limit 1 offset ${PART}`,
  )
  // Equal values are in one block.
  const end =
    last == null
      ? null
      : await one(`select min(r.value) as one from ${byValue} where ${are} and r.value > ${integer(last)}`)
  const isIn = (column: string, until: string) =>
    `${column} >= ${integer(from)}${end == null ? '' : ` and ${column} ${until} ${integer(end)}`}`
  const [first = { start: from, counters: 0 }, ...others] = await select<LeaderboardBlock>(
    connection,
    `select min(value) as start, count(*) as counters
       from (
            select r.value, rank() over (order by r.value) as place
              from ${byValue}
             where ${are} and ${isIn('r.value', '<')}) ranked
      group by (place - 1) div ${BLOCK}
      order by start`,
  )
  const written = [{ ...first, start: from }, ...others]
  const present = await select<LeaderboardBlock>(
    connection,
    `select from_value as start, counters
       from leaderboard_block
      where ${blocks} and ${isIn('from_value', '<=')}
      order by from_value`,
  )
  if (end != null) {
    const before =
      start == null ? await one(`select count(*) as one from ${byValue} where ${are}`) : totalOf(present)
    written.push({ start: end, counters: (before ?? 0) - totalOf(written) })
  }
  if (isDeepStrictEqual(present, written)) return end ?? undefined
  await connection.query(`delete from leaderboard_block where ${blocks} and ${isIn('from_value', '<=')}`)
  await connection.query(
    `insert into leaderboard_block (namespace_id, period_key, from_value, counters)
     values ${list(written, ({ start, counters }) => `(${keyOf(leaderboard)}, ${integer(start)}, ${integer(counters)})`)}`,
  )
  return end ?? undefined
}

function totalOf(blocks: readonly LeaderboardBlock[]): number {
  return blocks.reduce((sum, { counters }) => sum + counters, 0)
}
