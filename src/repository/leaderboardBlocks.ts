import type { Database } from '../mysql/pool.ts'
import { BEGIN, COMMIT, type PooledConnection } from '../mysql/pooledConnection.ts'
import { firstRow } from '../mysql/session.ts'
import { JOBS } from '../mysql/slots.ts'
import { groupBy, integer, list, selectAll } from '../mysql/sql.ts'
import { ALL_TIME, type Leaderboard } from '../rules/leaderboards.ts'

/*
 * Places on leaderboards. To count the rows with a higher value takes up to 100 ms among a million. So each large
 * leaderboard is divided into blocks of up to a thousand rows: a place is 1, plus the rows of all blocks before, plus
 * those that are counted within one block.
 *
 * A block has the rows with its `from_value` or more, up to the next block. The first one has all lower values. A value
 * with more than a thousand rows has a block of its own, which ends just behind it: so nobody tries to split it again. A
 * leaderboard without blocks is counted as if it were one.
 *
 * A copy splits blocks that it finds doubled. It only adds blocks: another process may be about to lay out the leaderboard
 * from one of them. A scheduled job lays out all blocks anew, which also joins small ones.
 *
 * The rule that always holds: at each commit, `counters` of a block is the number of its rows. Whoever changes rows or
 * blocks holds the lock on the namespace's row, from before it reads them.
 */

/** Rows of a block. */
export const BLOCK = 1000
/** A block with more rows than these has doubled. */
export const DOUBLE = 2 * BLOCK

export const LOWEST = Number.MIN_SAFE_INTEGER
const HIGHEST = Number.MAX_SAFE_INTEGER + 1

/** The rows of a leaderboard from a value up to below another one. */
export interface LeaderboardBlock extends Leaderboard {
  from: number
  end: number
  counters: number
  /** 0: a leaderboard without blocks. */
  isStored: number
}

/** The table of leaderboards, which has an index named after the sorted column, and the condition of one's rows. */
export function tableOf(periodKey: number) {
  if (periodKey === ALL_TIME) return { table: 'leaderboard', isOn: 'true' }
  return { table: 'leaderboard_period', isOn: `r.period_key = ${integer(periodKey)}` }
}

/** The rows of a leaderboard in the order of their values, as `from … where …` without further conditions. */
function fromRowsOf({ namespaceId, periodKey }: Leaderboard): string {
  const { table, isOn } = tableOf(periodKey)
  return `from ${table} r force index (${table}_value) where r.namespace_id = ${integer(namespaceId)} and ${isOn}`
}

/** The blocks of a leaderboard, likewise. */
function fromBlocksOf({ namespaceId, periodKey }: Leaderboard): string {
  return `from leaderboard_block where namespace_id = ${integer(namespaceId)} and period_key = ${integer(periodKey)}`
}

/** The key of a leaderboard, as SQL. */
function keyOf({ namespaceId, periodKey }: Leaderboard): string {
  return `${integer(namespaceId)}, ${integer(periodKey)}`
}

function selectBlocks(leaderboard: Leaderboard, condition = 'true'): string {
  return `select namespace_id as namespaceId, period_key as periodKey, from_value as \`from\`, counters, 1 as isStored
       ${fromBlocksOf(leaderboard)} and ${condition}`
}

/** Selects a leaderboard without blocks as the one block that it is. Counts no more rows than show that it has doubled. */
function selectUndivided(leaderboard: Leaderboard): string {
  const { namespaceId, periodKey } = leaderboard
  return `select cast(${namespaceId} as unsigned) as namespaceId, cast(${periodKey} as unsigned) as periodKey,
            ${LOWEST} as \`from\`,
            (select count(*) from (select 1 ${fromRowsOf(leaderboard)} limit ${DOUBLE + 1}) l) as counters,
            0 as isStored
       from dual
      where not exists (select 1 ${fromBlocksOf(leaderboard)})`
}

/** Reads blocks, each leaderboard's in the order of their values. The end of the last one that is selected is unknown. */
async function readBlocks(connection: PooledConnection, selects: readonly string[]) {
  const rows = await selectAll<Omit<LeaderboardBlock, 'end'>>(connection, selects)
  const ordered = rows.toSorted((a, b) => a.from - b.from)
  const withEnds = (blocks: readonly Omit<LeaderboardBlock, 'end'>[]) =>
    blocks.map((block, index) => ({ end: blocks[index + 1]?.from ?? HIGHEST, ...block }))
  return new Map([...groupBy(ordered, keyOf)].map(([key, blocks]) => [key, withEnds(blocks)]))
}

/** A value on a leaderboard, in one of its orders. */
export interface ListedValue extends Leaderboard {
  value: number
  lowestFirst: boolean
}

export type Place = { place: number }

/** Reads the places of values, within a snapshot. */
export async function readPlaces<Value extends ListedValue>(
  connection: PooledConnection,
  values: readonly Value[],
): Promise<(Value & Place)[]> {
  const selects = [...groupBy(values, keyOf).values()].map(([first]) => selectBlocks(first))
  const blocks = await readBlocks(connection, selects)
  const steps = [...groupBy(values, orderOf).values()].flatMap((alike) =>
    stepsOf(alike, blocks.get(keyOf(alike[0])) ?? [{ from: LOWEST, end: HIGHEST, counters: 0 }]),
  )
  const counts = await selectAll<{ step: number; counted: number }>(
    connection,
    // The ends are literals: with references, a server would count all rows before.
    steps.map(
      (step, index) =>
        `select ${index} as step, count(*) as counted ${fromRowsOf(step)} and r.value >= ${step.from} and r.value < ${step.end}`,
    ),
  )
  const countedIn = new Map(counts.map(({ step, counted }) => [step, counted]))
  const places = new Map<string, number>()
  let place = Number.NaN
  for (const [index, step] of steps.entries()) {
    place = (step.before === undefined ? place : 1 + step.before) + (countedIn.get(index) ?? Number.NaN)
    places.set(valueText(step), place)
  }
  return values.map((value) => {
    const place = places.get(valueText(value))
    if (!place) throw new Error(`No place was counted for ${valueText(value)}`)
    return { place, ...value }
  })
}

function orderOf(value: ListedValue): string {
  return `${keyOf(value)}, ${value.lowestFirst}`
}

export function valueText(value: ListedValue): string {
  return `${orderOf(value)}, ${value.value}`
}

/** A value, and the rows to be counted for its place. */
interface Step extends ListedValue, Pick<LeaderboardBlock, 'from' | 'end'> {
  /** The rows of all blocks before; undefined: it is counted from the place of the step before. */
  before: number | undefined
}

/** The steps by which the places of values in one order are counted. Each row is in at most one of them. */
function stepsOf(
  values: readonly [ListedValue, ...ListedValue[]],
  blocks: readonly Pick<LeaderboardBlock, 'from' | 'end' | 'counters'>[],
): Step[] {
  const [{ lowestFirst }] = values
  const unique = [...new Map(values.map((value) => [value.value, value])).values()]
  const sorted = unique.toSorted((a, b) => (lowestFirst ? a.value - b.value : b.value - a.value))
  const steps: Step[] = []
  let rows = 0
  for (const block of lowestFirst ? blocks : blocks.toReversed()) {
    let before: number | undefined = rows
    let edge = lowestFirst ? block.from : block.end
    while (true) {
      const value = sorted[steps.length]
      if (!value || value.value < block.from || value.value >= block.end) break
      const bound = lowestFirst ? value.value : value.value + 1
      steps.push({ ...value, before, from: Math.min(edge, bound), end: Math.max(edge, bound) })
      before = undefined
      edge = bound
    }
    rows += block.counters
  }
  return steps
}

/** The statement that locks the leaderboards of namespaces, and reads for which periods they have some. */
export function lockLeaderboards(namespaceIds: readonly number[]): string {
  return `select id, leaderboards
       from namespace force index (primary)
      where id in (${list(namespaceIds, integer)})
      order by id
        for update`
}

/** A counter's row that enters a leaderboard, leaves it, or changes its value. Null: it is not there. */
export interface Move extends Leaderboard {
  id: number
  before: number | null
  after: number | null
}

const INSERT_BLOCKS = 'insert into leaderboard_block (namespace_id, period_key, from_value, counters)'
const ADD = 'on duplicate key update counters = counters + values(counters)'

/**
 * Reads what moves do to the blocks of leaderboards.
 *
 * @param isDivided whether any of the leaderboards has blocks
 * @returns the statement that counts the moves, or none if no block gets more or fewer rows; and which blocks have doubled
 */
export async function readBlockChanges(
  connection: PooledConnection,
  moves: readonly Move[],
  isDivided: boolean,
): Promise<{ counting: string[]; doubled: LeaderboardBlock[] }> {
  const leaderboards = groupBy(moves, keyOf)
  const blocks = await readBlocks(
    connection,
    [...leaderboards.values()].flatMap((alike) => [
      ...(isDivided ? [selectBlocksOf(alike)] : []),
      // Only more rows make it double.
      ...(alike.some(({ before }) => before === null) ? [selectUndivided(alike[0])] : []),
    ]),
  )
  const changes = [...blocks].flatMap(([key, present]) => changesOf(present, leaderboards.get(key) ?? []))
  const rows = changes.flatMap((block) =>
    block.isStored && block.change !== 0 ? `(${keyOf(block)}, ${integer(block.from)}, ${block.change})` : [],
  )
  return {
    counting: rows.length > 0 ? [`${INSERT_BLOCKS} values ${rows.join(', ')} ${ADD}`] : [],
    // A block of one value cannot be split.
    doubled: changes.filter(({ from, end, counters }) => counters > DOUBLE && end - from > 1),
  }
}

/** Selects the blocks that have the values of moves on one leaderboard, and one that may end the last of them. */
function selectBlocksOf(moves: readonly [Move, ...Move[]]): string {
  const values = moves.flatMap(({ before, after }) => [before ?? after ?? 0, after ?? before ?? 0])
  const [lowest, highest] = [Math.min(...values), Math.max(...values)].map(integer)
  const first = `select max(from_value) ${fromBlocksOf(moves[0])} and from_value <= ${lowest}`
  return selectBlocks(moves[0], `from_value <= ${highest} + 1 and from_value >= (${first})`)
}

/** The blocks that moves begin or end in, as they are afterwards. */
function changesOf(blocks: readonly LeaderboardBlock[], moves: readonly Move[]) {
  const changes = new Map<LeaderboardBlock, number>()
  const add = (value: number | null, change: number) => {
    const block = value === null ? undefined : blocks.findLast(({ from }) => from <= value)
    if (block) changes.set(block, (changes.get(block) ?? 0) + change)
  }
  for (const { before, after } of moves) {
    add(before, -1)
    add(after, 1)
  }
  return [...changes].map(([block, change]) => ({ ...block, counters: block.counters + change, change }))
}

/**
 * Makes one block of up to a thousand rows of those from a value on, and counts it. The next one gets the difference, or
 * the rest.
 *
 * @param from where a block begins; if no longer, nothing is done
 * @param moreThan does nothing if the block has at most so many rows
 * @returns where the next block begins; undefined: there is none, or nothing was done
 */
export function layOut(
  database: Database,
  leaderboard: Leaderboard,
  from: number,
  moreThan = Number.NEGATIVE_INFINITY,
): Promise<number | undefined> {
  const [rows, blocks, key] = [fromRowsOf(leaderboard), fromBlocksOf(leaderboard), keyOf(leaderboard)]
  const work = async (connection: PooledConnection) => {
    const answers = await connection.send([
      ...BEGIN,
      lockLeaderboards([leaderboard.namespaceId]),
      // If it has none yet, it becomes one block. Otherwise its rows must not be read.
      `${INSERT_BLOCKS} select ${key}, ${LOWEST}, if(exists (select 1 ${blocks}), 0, (select count(*) ${rows})) ${ADD}`,
      `select counters,
              (select r.value ${rows} and r.value >= ${from} order by r.value limit 1 offset ${BLOCK}) as following
         ${blocks} and from_value = ${integer(from)}`,
    ])
    const block = firstRow<{ counters: number; following: number | null }>(answers.at(-1))
    if (!block || block.counters <= moreThan) {
      await connection.send(COMMIT)
      return undefined
    }
    // A value with more rows than a block gets a block of its own.
    const end = block.following === null ? HIGHEST : Math.max(block.following, from + 1)
    const isWithin = (column: string) => `${column} >= ${from} and ${column} < ${end}`
    const counted = `(select count(*) ${rows} and ${isWithin('r.value')})`
    const sum = `(select sum(counters) ${blocks} and ${isWithin('from_value')})`
    await connection.send([
      ...(end === HIGHEST ? [] : [`${INSERT_BLOCKS} select ${key}, ${end}, ${sum} - ${counted} ${ADD}`]),
      `delete ${blocks} and from_value > ${from} and ${isWithin('from_value')}`,
      `${INSERT_BLOCKS} select ${key}, ${from}, ${counted} on duplicate key update counters = values(counters)`,
      ...COMMIT,
    ])
    return end === HIGHEST ? undefined : end
  }
  return database.withRetry(JOBS, (connection) => connection.orRollBack(() => work(connection)))
}
