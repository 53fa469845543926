import type { Connection } from '../mysql/connection.ts'
import { ER, failureOf, hasErrorNumber } from '../mysql/errors.ts'
import type { FailoverDetector, Loss } from '../mysql/health.ts'
import type { Database } from '../mysql/pool.ts'
import type { Target } from '../mysql/settings.ts'
import { bytes, integer } from '../mysql/sql.ts'
import type { Notices } from '../operations/log.ts'
import { repeat } from './jobs.ts'
import { noneWithoutTable, withSession } from './migrate.ts'

/** A loss of commits that is noted in the database. */
interface NotedLoss extends Loss {
  noticedAt: Date
  isAccepted: boolean
}

/** What an operator does about a loss, once it can't be undone. */
export const ADVICE =
  'Restore the database as it was; or move the numbers on with nth restore --advance, and accept the loss with nth check --accept-lost-commits.'

/** How often the database is looked at, in milliseconds: a loss stops all processes within two seconds. */
const LOOK_EVERY_MS = 1000

/** All that were noted; none in a database that is not migrated. */
export async function readLosses(connection: Connection): Promise<NotedLoss[]> {
  const reading = connection.select<{ id: number; noticed_at: Date; what: Buffer; accepted_at: Date | null }>(
    'select id, noticed_at, what, accepted_at from lost_commits order by noticed_at',
  )
  return (await reading.catch(noneWithoutTable)).map(({ id, noticed_at, what, accepted_at }) => ({
    id,
    what: what.toString(),
    noticedAt: noticed_at,
    isAccepted: accepted_at !== null,
  }))
}

export async function acceptLosses(connection: Connection): Promise<void> {
  await connection.query('update lost_commits set accepted_at = utc_timestamp(3) where accepted_at is null')
}

/** @throws {Error} for an operator, if numbers would be issued twice */
export async function assertNothingLost(target: Target): Promise<void> {
  const losses = await withSession(target, readLosses)
  const loss = losses.find(({ isAccepted }) => !isAccepted)
  if (loss) throw new Error(`The database lacks changes that it had committed: ${loss.what}. ${ADVICE}`)
}

/**
 * Reports to other processes a loss that this one has noticed, by a row in the database, and learns of those that others
 * noticed: a look each second, not a statement of each flush.
 */
export function openLossWatch(database: Database, failover: FailoverDetector, notices: Notices) {
  async function look(): Promise<void> {
    const { unnoted } = failover
    const losses = await database.evenIfLossy(async (connection) => {
      // Repeatable.
      if (unnoted)
        await connection.query(
          `insert ignore into lost_commits (id, noticed_at, what)
           values (${integer(unnoted.id)}, utc_timestamp(3), ${bytes(unnoted.what)})`,
        )
      return readLosses(connection)
    })
    failover.learn(losses, unnoted)
  }

  const { close } = repeat(
    () => LOOK_EVERY_MS,
    () =>
      look().catch((error) => {
        // A database that is unreachable is reported elsewhere. Without the table, it is older, or being restored.
        if (failureOf(error) === 'fault' && !hasErrorNumber(error, ER.NO_SUCH_TABLE)) throw error
      }),
    notices,
  )
  /** `look` throws the reason why the database can't be read. */
  return { look, close }
}
