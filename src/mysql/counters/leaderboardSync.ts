import type { RowDataPacket } from 'mysql2'
import { NthError } from '../../core/errors.ts'
import type { Connection, Database } from '../connections/database.ts'
import { withTimeout } from '../connections/timeout.ts'
import { integer } from '../literals.ts'
import { IS_WRITTEN, JOIN_ALL_TIME, REVISION, UPDATED_AT, VALUE } from './columns.ts'
import { BEGINNING, type CountingRow } from './update.ts'

/**
 * Keeps the table `leaderboard` up to date, which holds counters sorted by value and by last change. Changed rows are
 * copied to it in batches, once a second or when a leaderboard is read: an index on the values themselves would make
 * each change 10 to 30 % more expensive.
 *
 * Each process scans all counters at startup and about every ten minutes, which finds rows that a killed process did
 * not copy.
 *
 * At most one copy runs and one waits. All requests in the meantime share the waiting one.
 */
export interface LeaderboardSync {
  /** Marks changed rows for the next copy. */
  note(rows: readonly CountingRow[]): void
  /** Copies the marked rows, if that takes less than a second. */
  refresh(): Promise<void>
  close(): Promise<void>
}

const DELAY_MS = 1000
const BATCH = 1000
/** Maximum wait for a copy, on reading and on closing. */
const PATIENCE_MS = 1000
/** Average time between two scans. It varies, so that processes started together scan at different times. */
const SCAN_EVERY_MS = 600_000
const SCAN_APART_MS = 2000
/** Ids per statement of a scan: takes about 20 ms. */
const PAGE = 10_000

export interface LeaderboardSyncOptions {
  /** Called with failures that an operator should see. */
  onFault: (error: unknown) => void
  /** Whether it scans for rows that other processes did not copy. */
  scans: boolean
}

export function openLeaderboardSync(
  database: Database,
  { onFault, scans }: LeaderboardSyncOptions,
): LeaderboardSync {
  let noted = new Set<number>()
  let copyTimer: NodeJS.Timeout | undefined
  let scanTimer: NodeJS.Timeout | undefined
  let isClosed = false
  let copying: Promise<void> | undefined
  let following: Promise<void> | undefined
  if (scans) scanLater(Math.random() * SCAN_APART_MS)

  function scanLater(delayMs: number): void {
    if (isClosed) return
    scanTimer = setTimeout(async () => {
      await scan().catch(report)
      scanLater(SCAN_EVERY_MS * (0.5 + Math.random()))
    }, delayMs).unref()
  }

  async function scan(): Promise<void> {
    const last = await database.withRetry(lastId)
    for (let from = 0; from < last && !isClosed; from += PAGE) {
      // A page that fails must not end the scan.
      await scanPage(from, from + PAGE).catch(report)
    }
  }

  async function scanPage(from: number, to: number): Promise<void> {
    await copyAll(await database.withRetry((connection) => staleIds(connection, from, to)))
    await database.withRetry((connection) => removeOrphans(connection, from, to))
  }

  /** Reports a failure, except a database that can't be reached, which is reported elsewhere. */
  function report(error: unknown): void {
    if (!isClosed && !(error instanceof NthError)) onFault(error)
  }

  function copyNow(): Promise<void> {
    following = undefined
    const done = copyNoted().finally(() => {
      if (copying === done) copying = undefined
    })
    copying = done
    return done
  }

  async function copyNoted(): Promise<void> {
    clearTimeout(copyTimer)
    copyTimer = undefined
    const ids = noted
    noted = new Set()
    try {
      await copyAll([...ids])
    } catch (error) {
      for (const id of ids) noted.add(id)
      copyLater()
      throw error
    }
  }

  async function copyAll(ids: readonly number[]): Promise<void> {
    const ordered = ids.toSorted((a, b) => a - b)
    for (let from = 0; from < ordered.length; from += BATCH) {
      await database.withRetry((connection) => copy(connection, ordered.slice(from, from + BATCH)))
    }
  }

  function refresh(): Promise<void> {
    if (!copying) return noted.size > 0 ? copyNow() : Promise.resolve()
    if (noted.size > 0) following ??= copying.catch(() => undefined).then(copyNow)
    return following ?? copying
  }

  function copyLater(): void {
    if (isClosed) return
    copyTimer ??= setTimeout(() => {
      copyTimer = undefined
      refresh().catch(report)
    }, DELAY_MS).unref()
  }

  return {
    refresh: () => withTimeout(PATIENCE_MS, refresh()).catch(() => undefined),

    note(rows) {
      for (const { id } of rows) noted.add(id)
      if (noted.size > 0) copyLater()
    },

    async close() {
      isClosed = true
      clearTimeout(scanTimer)
      clearTimeout(copyTimer)
      await withTimeout(PATIENCE_MS, refresh()).catch(() => undefined)
    },
  }
}

/**
 * Copies counters' rows. If two copies run at once, the newer state wins; for equal states the later `updated_at`, as a
 * change by 0 does not raise the revision.
 */
async function copy(connection: Connection, ids: readonly number[]): Promise<void> {
  await connection.query(
    `insert into leaderboard (counter_id, namespace_id, value, updated_at, revision)
     select c.id, c.namespace_id, ${VALUE}, coalesce(${UPDATED_AT}, ${BEGINNING}), ${REVISION}
       from counter c
       join counter_value v on ${JOIN_ALL_TIME}
      where c.id in (${ids.map(integer).join(', ')}) and ${IS_WRITTEN}
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
  const [rows] = await connection.query<RowDataPacket[]>('select max(id) as id from counter')
  return rows[0]?.id ?? 0
}

/** Ids above `from` and up to `to` whose copy is missing or outdated. */
async function staleIds(connection: Connection, from: number, to: number): Promise<number[]> {
  const [rows] = await connection.query<RowDataPacket[]>(
    `select c.id
       from counter c
       join counter_value v on ${JOIN_ALL_TIME}
       left join leaderboard r on r.counter_id = c.id
      where c.id > ${integer(from)} and c.id <= ${integer(to)}
        and ${IS_WRITTEN} and ${REVISION} > coalesce(r.revision, 0)`,
  )
  return rows.map(({ id }) => id)
}

/** Removes copies of deleted counters: a copy that runs during the delete may recreate them. */
async function removeOrphans(connection: Connection, from: number, to: number): Promise<void> {
  const [rows] = await connection.query<RowDataPacket[]>(
    `select r.counter_id as id
       from leaderboard r
       left join counter c on c.id = r.counter_id
      where r.counter_id > ${integer(from)} and r.counter_id <= ${integer(to)} and c.id is null`,
  )
  for (const { id } of rows) {
    await connection.query(`delete from leaderboard where counter_id = ${integer(id)}`)
  }
}
