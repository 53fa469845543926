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
const PART = 20_000

/** Below all values. */
export const LOWEST = Number.MIN_SAFE_INTEGER
/** Above all values. */
const HIGHEST = Number.MAX_SAFE_INTEGER + 1

/** The table of leaderboards, which has an index named after the sorted column, and the condition of one's rows. */
export function rowsOf(periodKey: number) {
  if (periodKey === ALL_TIME) return { table: 'leaderboard', isOn: 'true' }
  return { table: 'leaderboard_period', isOn: `r.period_key = ${integer(periodKey)}` }
}

/** The rows of a leaderboard in the order of their values, as `from … where …` without further conditions. */
export function fromRowsOf({ namespaceId, periodKey }: Leaderboard): string {
  const { table, isOn } = rowsOf(periodKey)
  return `from ${table} r force index (${table}_value) where r.namespace_id = ${integer(namespaceId)} and ${isOn}`
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
  const blocks = `from leaderboard_block where ${areBlocksOf(leaderboard)}`
  const [own, isBefore, isAfter] = [integer(value), lowestFirst ? '<=' : '>', lowestFirst ? '>=' : '>']
  const next = `(select min(from_value) ${blocks} and from_value > ${own})`
  const counted = `(select count(*) ${fromRowsOf(leaderboard)}
           and r.value ${isAfter} ${own} and r.value < coalesce(${next}, ${HIGHEST}))`
  return `if(exists (select 1 ${blocks}), cast(1
       + (select coalesce(sum(counters), 0) ${blocks} and from_value ${isBefore} ${own})
       ${lowestFirst ? '-' : '+'} ${counted} as signed), null)`
}

/** A counter's row that enters a leaderboard, leaves it, or changes its value. Undefined: it is not there. */
export interface Move extends Leaderboard {
  id: number
  before: number | undefined
  after: number | undefined
}

/** Counts rows that were changed in the same transaction. */
export async function countMoves(connection: Connection, moves: readonly Move[]): Promise<void> {
  if (moves.length === 0) return
  const leaderboards = groupBy(moves, keyOf)
  const blocks = await select<Leaderboard & { from: number }>(
    connection,
    `select namespace_id as namespaceId, period_key as periodKey, from_value as \`from\`
       from leaderboard_block
      where ${[...leaderboards.values()].map(areBlocksOfAll).join(' or ')}
      order by namespace_id, period_key, from_value`,
  )
  const blocksOf = groupBy(blocks, keyOf)
  const changes = new Map<string, number>()
  for (const [key, own] of leaderboards) {
    const present = blocksOf.get(key)
    const add = (value: number | undefined, amount: number) => {
      if (value === undefined || !present) return
      const block = `${key}, ${startOf(present, value)}`
      changes.set(block, (changes.get(block) ?? 0) + amount)
    }
    for (const { before, after } of own) {
      add(before, -1)
      add(after, 1)
    }
    if (!present) await connection.query(firstBlock(own[0]))
  }
  const changed = [...changes].filter(([, counters]) => counters !== 0)
  if (changed.length === 0) return
  await connection.query(
    `${INSERT_BLOCKS}
     values ${changed.map(([block, counters]) => `(${block}, ${counters})`).join(', ')}
     on duplicate key update counters = counters + values(counters)`,
  )
}

/** The start of the block that has a value, by bisection. */
function startOf(blocks: readonly { from: number }[], value: number): number {
  let [low, high] = [0, blocks.length]
  while (low + 1 < high) {
    const middle = (low + high) >> 1
    if ((blocks[middle]?.from ?? 0) <= value) low = middle
    else high = middle
  }
  return blocks[low]?.from ?? LOWEST
}

const INSERT_BLOCKS = 'insert into leaderboard_block (namespace_id, period_key, from_value, counters)'

/** Counts a leaderboard without blocks, in a first one. */
function firstBlock(leaderboard: Leaderboard): string {
  return `${INSERT_BLOCKS} select ${keyOf(leaderboard)}, ${LOWEST}, count(*) ${fromRowsOf(leaderboard)}`
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
  const [rows, key] = [fromRowsOf(leaderboard), keyOf(leaderboard)]
  const blocks = `from leaderboard_block where ${areBlocksOf(leaderboard)}`
  const read = async (expression: string, rest: string) =>
    (await select<{ one: number | null }>(connection, `select ${expression} as one ${rest}`))[0]?.one
  const start = await read('max(from_value)', `${blocks} and from_value <= ${integer(value)}`)
  if (start == null) await connection.query(firstBlock(leaderboard))
  const from = start ?? LOWEST
  const last = `select r.value ${rows} and r.value >= ${integer(from)} order by r.value limit 1 offset ${PART}`
  // Equal values are in one block.
  const end = await read('min(r.value)', `${rows} and r.value > (${last})`)
  const isIn = (column: string, until: string) =>
    `${column} >= ${integer(from)}${end == null ? '' : ` and ${column} ${until} ${integer(end)}`}`
  const [first = { start: from, counters: 0 }, ...others] = await select<LeaderboardBlock>(
    connection,
    `select min(value) as start, count(*) as counters
       from (select r.value, rank() over (order by r.value) as place ${rows} and ${isIn('r.value', '<')}) rows_by_value
      group by (place - 1) div ${BLOCK}
      order by start`,
  )
  const written = [{ ...first, start: from }, ...others]
  const present = `${blocks} and ${isIn('from_value', '<=')}`
  if (end != null) {
    const before = (await read('cast(sum(counters) as signed)', present)) ?? 0
    written.push({ start: end, counters: written.reduce((left, { counters }) => left - counters, before) })
  }
  await connection.query(`delete ${present}`)
  await connection.query(
    `${INSERT_BLOCKS}
     values ${list(written, ({ start, counters }) => `(${key}, ${integer(start)}, ${integer(counters)})`)}`,
  )
  return end ?? undefined
}
