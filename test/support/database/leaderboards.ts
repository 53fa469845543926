import type { Target } from '../../../src/mysql/settings.ts'
import { leaderboardJobs } from '../../../src/repository/leaderboardSync.ts'
import { openTestDatabase, query } from './database.ts'

/** Runs the scheduled jobs of leaderboards once. */
export async function runLeaderboardJobs(target: Target, now = new Date()): Promise<void> {
  const database = openTestDatabase(target)
  for (const job of leaderboardJobs) await job.run({ database, now, shouldContinue: () => true })
}

/** The blocks of each leaderboard that do not have the rows that they count. */
export async function wrongBlocks(target: Target) {
  const rows = (table: string, key: string) =>
    `select namespace_id, ${key} as period_key, value from ${table}`
  return query(
    target,
    `select b.*, (
              select count(*)
                from (${rows('leaderboard', '0')} union all ${rows('leaderboard_period', 'period_key')}) r
               where r.namespace_id = b.namespace_id and r.period_key = b.period_key and r.value >= b.from_value
                 and r.value < coalesce((
                     select min(o.from_value)
                       from leaderboard_block o
                      where o.namespace_id = b.namespace_id and o.period_key = b.period_key
                        and o.from_value > b.from_value), 9e18)) as present
       from leaderboard_block b
     having present <> counters`,
  )
}

/** Divides each leaderboard without blocks at some values, as the scheduled job does with large ones. */
export async function divide(target: Target, values: readonly number[]): Promise<void> {
  const starts = [Number.MIN_SAFE_INTEGER, ...values]
  const blocks = ['0 from leaderboard', 'period_key from leaderboard_period'].flatMap((from) =>
    starts.map(
      (
        start,
        index,
      ) => `select namespace_id, ${from.replace(' from', `, ${start}, sum(value >= ${start} and value < ${starts[index + 1] ?? '9e18'}) from`)}
        group by 1, 2`,
    ),
  )
  await query(target, `insert ignore into leaderboard_block ${blocks.join(' union all ')}`)
}

/** The period keys of the leaderboards that are filled. */
export const PERIODS = [0, 202611, 202612]

/** A counter's value on each of the leaderboards of its namespace, of all time first; null: it is not there. */
type Values = (number | null)[]

/** Fills the namespaces n1 and n2 with counters c1 …, as a version without blocks would have left them. */
export async function fill(target: Target, all: readonly (readonly (Values | number)[])[]): Promise<void> {
  const counters = all.flatMap((counters, namespace) =>
    counters.map((each, index) => ({
      id: 1 + namespace * counters.length + index,
      namespaceId: namespace + 1,
      name: `c${index + 1}`,
      values: typeof each === 'number' ? [each] : each,
    })),
  )
  const rows = counters.flatMap(({ id, namespaceId, values }) =>
    values.flatMap((value, index) =>
      value === null ? [] : { id, namespaceId, value, periodKey: PERIODS[index] },
    ),
  )
  const insert = (into: string, tuples: string[]) =>
    tuples.length > 0 ? [`insert into ${into} values ${tuples.join(', ')}`] : []
  await query(
    target,
    "insert into namespace (id, name) values (1, 'n1'), (2, 'n2')",
    ...insert(
      'counter (id, namespace_id, name)',
      counters.map(({ id, namespaceId, name }) => `(${id}, ${namespaceId}, '${name}')`),
    ),
    ...insert(
      'counter_value (counter_id, slot, version, value, revision, created_at)',
      // With revision 0, a counter that is not on the leaderboard of all time does not have to be copied to it.
      counters.map(
        ({ id, values: [value = null] }) =>
          `(${id}, 0, 1, ${value ?? 0}, ${value === null ? 0 : 1}, utc_timestamp())`,
      ),
    ),
    ...insert(
      'leaderboard (counter_id, namespace_id, value, updated_at, revision)',
      rows.flatMap(({ id, namespaceId, value, periodKey }) =>
        periodKey === 0 ? `(${id}, ${namespaceId}, ${value}, '1970-01-01', 1)` : [],
      ),
    ),
    ...insert(
      'leaderboard_period (counter_id, period_key, namespace_id, value)',
      rows.flatMap(({ id, namespaceId, value, periodKey }) =>
        periodKey === 0 ? [] : `(${id}, ${periodKey}, ${namespaceId}, ${value})`,
      ),
    ),
  )
}
