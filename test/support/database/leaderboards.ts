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
