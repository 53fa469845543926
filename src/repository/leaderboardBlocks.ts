import { BEGIN, COMMIT, type Connection, orRollBack, queryAll } from '../mysql/pool.ts'
import { firstRow } from '../mysql/session.ts'
import { groupBy, integer, list, select } from '../mysql/sql.ts'
import { ALL_TIME, type Leaderboard } from '../rules/leaderboards.ts'

/*
 * Places on leaderboards. To count the rows with a higher value takes up to 100 ms among a million. So each leaderboard
 * of more than a thousand rows is divided into blocks of about so many: a place is 1, and the rows of all blocks before,
 * and those that are counted within one block. That takes 0.5 ms.
 *
 * A block has the rows with its `from_value` or more, up to the next block. The first one has all lower values. Equal
 * values are never split, so a block may be much larger; so is one that has grown since the last scan. A leaderboard
 * without blocks is counted as if it were one.
 *
 * The rule that always holds: at each commit, `counters` of a block is the number of its rows. Whoever changes rows holds
 * the lock on the namespace's row, from before it reads them.
 */

/** Rows of a block. */
export const BLOCK = 1000

/** Below all values. */
export const LOWEST = Number.MIN_SAFE_INTEGER
/** Above all values. */
const HIGHEST = Number.MAX_SAFE_INTEGER + 1

/** The table of leaderboards, which has an index named after the sorted column, and the condition of one's rows. */
export function tableOf(periodKey: number) {
  if (periodKey === ALL_TIME) return { table: 'leaderboard', isOn: 'true' }
  return { table: 'leaderboard_period', isOn: `r.period_key = ${integer(periodKey)}` }
}

/** A leaderboard, whose namespace may be a subquery. */
type SqlLeaderboard = Pick<Leaderboard, 'periodKey'> & { namespaceId: number | string }

/** The rows of a leaderboard in the order of their values, as `from … where …` without further conditions. */
function fromRowsOf({ namespaceId, periodKey }: SqlLeaderboard): string {
  const { table, isOn } = tableOf(periodKey)
  return `from ${table} r force index (${table}_value) where r.namespace_id = ${namespaceId} and ${isOn}`
}

/** The blocks of a leaderboard, likewise. */
function fromBlocksOf(leaderboard: SqlLeaderboard): string {
  return `from leaderboard_block where ${areBlocksOf(leaderboard)}`
}

function areBlocksOf({ namespaceId, periodKey }: SqlLeaderboard): string {
  return `namespace_id = ${namespaceId} and period_key = ${integer(periodKey)}`
}

/**
 * An expression for the place of a value. The value, the namespace and the ends of the block are literals, or subqueries
 * without references, as otherwise a server would count all values before it.
 */
export function placeOf(leaderboard: SqlLeaderboard, value: number | string, lowestFirst: boolean): string {
  const blocks = fromBlocksOf(leaderboard)
  const start = `(select max(from_value) ${blocks} and from_value <= ${value})`
  const next = `(select min(from_value) ${blocks} and from_value > ${value})`
  const [areBefore, isBefore] = lowestFirst
    ? [`from_value < ${start}`, `r.value >= coalesce(${start}, ${LOWEST}) and r.value < ${value}`]
    : [`from_value > ${value}`, `r.value > ${value} and r.value < coalesce(${next}, ${HIGHEST})`]
  return `cast(1
       + (select coalesce(sum(counters), 0) ${blocks} and ${areBefore})
       + (select count(*) ${fromRowsOf(leaderboard)} and ${isBefore}) as signed)`
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

type BlockStart = Leaderboard & { from: number }

/** The statement that counts moves; none if no block gets more or fewer rows. */
export async function countingOf(connection: Connection, moves: readonly Move[]): Promise<string[]> {
  if (moves.length === 0) return []
  const leaderboards = groupBy(moves, keyOf)
  const blocks = await select<BlockStart>(
    connection,
    `select namespace_id as namespaceId, period_key as periodKey, from_value as \`from\`
       from leaderboard_block
      where ${[...leaderboards.values()].map(areBlocksOfAll).join(' or ')}
      order by namespace_id, period_key, from_value`,
  )
  const changes = [...groupBy(blocks, keyOf)].flatMap(([key, present]) =>
    changesOf(present, leaderboards.get(key) ?? []),
  )
  if (changes.length === 0) return []
  return [
    `${INSERT_BLOCKS}
     values ${changes.join(', ')}
     on duplicate key update counters = counters + values(counters)`,
  ]
}

/** The rows of blocks whose counts change, and by how much. */
function changesOf(blocks: readonly BlockStart[], moves: readonly Move[]): string[] {
  const changes = blocks.map(() => 0)
  const steps = moves.flatMap(({ before, after }) => [
    { value: before, change: -1 },
    { value: after, change: 1 },
  ])
  let index = 0
  for (const { value, change } of steps.toSorted((a, b) => (a.value ?? 0) - (b.value ?? 0))) {
    if (value === null) continue
    while ((blocks[index + 1]?.from ?? HIGHEST) <= value) index += 1
    changes[index] = (changes[index] ?? 0) + change
  }
  return blocks.flatMap((block, index) =>
    changes[index] ? `(${keyOf(block)}, ${integer(block.from)}, ${changes[index]})` : [],
  )
}

/** The condition of the blocks that have the values of moves on one leaderboard. */
function areBlocksOfAll(moves: readonly [Move, ...Move[]]): string {
  const values = moves.flatMap(({ before, after }) => [before ?? after ?? 0, after ?? before ?? 0])
  const [lowest, highest] = [Math.min(...values), Math.max(...values)].map(integer)
  return `${areBlocksOf(moves[0])} and from_value <= ${highest} and from_value >= (
            select max(from_value) ${fromBlocksOf(moves[0])} and from_value <= ${lowest})`
}

/** The key of a leaderboard, as SQL. */
function keyOf({ namespaceId, periodKey }: Leaderboard): string {
  return `${integer(namespaceId)}, ${integer(periodKey)}`
}

/**
 * Makes one block of about a thousand rows of those from a value on, and counts it. The next one gets the difference,
 * or the rest.
 *
 * @param from where a block begins
 * @returns where the next one begins; undefined: there is none
 */
export function layOut(
  connection: Connection,
  leaderboard: Leaderboard,
  from: number,
): Promise<number | undefined> {
  const [rows, blocks, key] = [fromRowsOf(leaderboard), fromBlocksOf(leaderboard), keyOf(leaderboard)]
  const last = `select r.value ${rows} and r.value >= ${integer(from)} order by r.value limit 1 offset ${BLOCK - 1}`
  return orRollBack(connection, async () => {
    const answers = await queryAll(connection, [
      ...BEGIN,
      lockLeaderboards([leaderboard.namespaceId]),
      // Equal values are in one block.
      `select exists (select 1 ${blocks}) as isCounted,
              (select min(r.value) ${rows} and r.value > (${last})) as end`,
    ])
    const { isCounted, end } = firstRow<{ isCounted: number; end: number | null }>(answers.at(-1)) ?? {}
    const isIn = (column: string) => `${column} >= ${from} and ${column} < ${end ?? HIGHEST}`
    const counted = `(select count(*) ${rows} and ${isIn('r.value')})`
    const rest = `${INSERT_BLOCKS}
     select ${key}, ${end}, (select sum(counters) ${blocks} and ${isIn('from_value')}) - ${counted}
     on duplicate key update counters = counters + values(counters)`
    await queryAll(connection, [
      ...(isCounted ? [] : [`${INSERT_BLOCKS} select ${key}, ${LOWEST}, count(*) ${rows}`]),
      ...(end == null ? [] : [rest]),
      `delete ${blocks} and from_value > ${from} and ${isIn('from_value')}`,
      `${INSERT_BLOCKS}
     select ${key}, ${from}, ${counted}
     on duplicate key update counters = values(counters)`,
      ...COMMIT,
    ])
    return end ?? undefined
  })
}
