import type { JobContext } from '../batches.ts'
import type { Connection, Database } from '../connections/database.ts'
import { COUNTER_EXISTS, JOIN_VALUE, REVISION, UPDATED_AT, VALUE } from '../counters/columns.ts'
import { EPOCH, integer, list } from '../literals.ts'
import { select } from '../select.ts'

const BATCH = 1000
/** Ids per statement of a scan: takes about 20 ms. */
const PAGE = 10_000

export async function copyToLeaderboard(database: Database, ids: readonly number[]): Promise<void> {
  const ordered = ids.toSorted((a, b) => a - b)
  for (let from = 0; from < ordered.length; from += BATCH) {
    await database.withRetry((connection) => copyRows(connection, ordered.slice(from, from + BATCH)))
  }
}

/**
 * Scans all counters for rows that were not copied, and for copies of deleted counters. A failed page stops no other.
 *
 * @throws the first failure, at the end
 */
export async function scanLeaderboard({ database, shouldContinue }: JobContext): Promise<void> {
  const failures: unknown[] = []
  const last = await database.withRetry(lastId)
  for (let from = 0; from < last && shouldContinue(); from += PAGE) {
    await scanPage(database, from, from + PAGE).catch((error) => failures.push(error))
  }
  if (failures.length > 0) throw failures[0]
}

async function scanPage(database: Database, from: number, to: number): Promise<void> {
  await copyToLeaderboard(database, await database.withRetry((connection) => staleIds(connection, from, to)))
  await database.withRetry((connection) => removeOrphans(connection, from, to))
}

/**
 * Copies counters' rows. If two copies run at once, the newer state wins; for equal states the later `updated_at`, as a
 * change by 0 does not raise the revision.
 */
export async function copyRows(connection: Connection, ids: readonly number[]): Promise<void> {
  await connection.query(
    `insert into leaderboard (counter_id, namespace_id, value, updated_at, revision)
     select c.id, c.namespace_id, ${VALUE}, coalesce(${UPDATED_AT}, ${EPOCH}), ${REVISION}
       from counter c
       join counter_value v on ${JOIN_VALUE}
      where c.id in (${list(ids, integer)}) and ${COUNTER_EXISTS}
     on duplicate key update
       value = if(values(revision) > leaderboard.revision, values(value), leaderboard.value),
       updated_at = case
         when values(revision) > leaderboard.revision then values(updated_at)
         when values(revision) = leaderboard.revision then greatest(values(updated_at), leaderboard.updated_at)
         else leaderboard.updated_at
       end,
       revision = greatest(values(revision), leaderboard.revision)`,
  )
}

async function lastId(connection: Connection): Promise<number> {
  const [row] = await select<{ id: number | null }>(connection, 'select max(id) as id from counter')
  return row?.id ?? 0
}

/** Ids above `from` and up to `to` whose copy is missing or outdated. */
async function staleIds(connection: Connection, from: number, to: number): Promise<number[]> {
  const rows = await select<{ id: number }>(
    connection,
    `select c.id
       from counter c
       join counter_value v on ${JOIN_VALUE}
       left join leaderboard r on r.counter_id = c.id
      where c.id > ${integer(from)} and c.id <= ${integer(to)}
        and ${COUNTER_EXISTS} and ${REVISION} > coalesce(r.revision, 0)`,
  )
  return rows.map(({ id }) => id)
}

/** Removes copies of deleted counters: a copy that runs during the delete may recreate them. */
async function removeOrphans(connection: Connection, from: number, to: number): Promise<void> {
  const rows = await select<{ id: number }>(
    connection,
    `select r.counter_id as id
       from leaderboard r
       left join counter c on c.id = r.counter_id
      where r.counter_id > ${integer(from)} and r.counter_id <= ${integer(to)} and c.id is null`,
  )
  for (const { id } of rows) {
    await connection.query(`delete from leaderboard where counter_id = ${integer(id)}`)
  }
}
