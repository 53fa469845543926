import type { RowDataPacket } from 'mysql2'
import { NthError } from '../core/errors.ts'
import { IS_WRITTEN, JOIN_ALL_TIME, REVISION, UPDATED_AT, VALUE } from './counterRows.ts'
import { BEGINNING, type CountingRow } from './counting.ts'
import type { Connection, Database } from './database.ts'
import { integer } from './literals.ts'
import { within } from './within.ts'

/**
 * Keeps the table `counter_rank`, by which counters are listed in the order of their values and changes. Rows
 * that were changed are copied there together, once a second or when somebody lists: an index on the values
 * themselves would make each change 10 to 30 % dearer.
 *
 * What a process had not copied when it was killed, a scan by another finds: each goes through all counters when
 * it starts, and every ten minutes or so.
 *
 * One copy is under way at most, and one waits for it, which all share who ask meanwhile.
 */
export interface Ranking {
  /** Notes rows that were changed. */
  note(rows: readonly CountingRow[]): void
  /** Copies what was noted, if that can be done soon. */
  refresh(): Promise<void>
  close(): Promise<void>
}

const DELAY_MS = 1000
const BATCH = 1000
/** How long somebody who lists, or closes, waits for a copy. */
const PATIENCE_MS = 1000
/** Average time between two scans. It varies, so that processes started together scan at different times. */
const SCAN_EVERY_MS = 600_000
const SCAN_APART_MS = 2000
/** Ids per statement of a scan: takes about 20 ms. */
const PAGE = 10_000

export interface RankingOptions {
  /** Told of failures that an operator should see. */
  onFault: (error: unknown) => void
  /** Whether it looks for what other processes have left. */
  scans: boolean
}

export function openRanking(database: Database, { onFault, scans }: RankingOptions): Ranking {
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
    const last = await database.repeatable(lastId)
    for (let from = 0; from < last && !isClosed; from += PAGE) {
      // A page that fails must not end the scan.
      await scanPage(from, from + PAGE).catch(report)
    }
  }

  async function scanPage(from: number, to: number): Promise<void> {
    await copyAll(await database.repeatable((connection) => staleIds(connection, from, to)))
    await database.repeatable((connection) => removeOrphans(connection, from, to))
  }

  /** Tells an operator, unless the database is out of reach, which is told already, or this one closes. */
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
      await database.repeatable((connection) => copy(connection, ordered.slice(from, from + BATCH)))
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
    refresh: () => within(PATIENCE_MS, refresh()).catch(() => undefined),

    note(rows) {
      for (const { id } of rows) noted.add(id)
      if (noted.size > 0) copyLater()
    },

    async close() {
      isClosed = true
      clearTimeout(scanTimer)
      clearTimeout(copyTimer)
      await within(PATIENCE_MS, refresh()).catch(() => undefined)
    },
  }
}

/**
 * Copies counters' rows. Of two copies under way at once, the later state stays; of one state, the later change by 0,
 * which raises no revision.
 */
async function copy(connection: Connection, ids: readonly number[]): Promise<void> {
  await connection.query(
    `insert into counter_rank (counter_id, namespace_id, value, updated_at, revision)
     select c.id, c.namespace_id, ${VALUE}, coalesce(${UPDATED_AT}, ${BEGINNING}), ${REVISION}
       from counter c
       join counter_value v on ${JOIN_ALL_TIME}
      where c.id in (${ids.map(integer).join(', ')}) and ${IS_WRITTEN}
     on duplicate key update
       value = if(values(revision) > counter_rank.revision, values(value), counter_rank.value),
       updated_at = case
         when values(revision) > counter_rank.revision then values(updated_at)
         when values(revision) = counter_rank.revision then greatest(values(updated_at), counter_rank.updated_at)
         else counter_rank.updated_at
       end,
       revision = greatest(values(revision), counter_rank.revision)`,
  )
}

async function lastId(connection: Connection): Promise<number> {
  const [rows] = await connection.query<RowDataPacket[]>('select max(id) as id from counter')
  return rows[0]?.id ?? 0
}

/** The counters with ids above `from` and up to `to` whose copy is missing or old. */
async function staleIds(connection: Connection, from: number, to: number): Promise<number[]> {
  const [rows] = await connection.query<RowDataPacket[]>(
    `select c.id
       from counter c
       join counter_value v on ${JOIN_ALL_TIME}
       left join counter_rank r on r.counter_id = c.id
      where c.id > ${integer(from)} and c.id <= ${integer(to)}
        and ${IS_WRITTEN} and ${REVISION} > coalesce(r.revision, 0)`,
  )
  return rows.map(({ id }) => id)
}

/** Removes the copies of counters that are deleted: a copy that was under way then has brought them back. */
async function removeOrphans(connection: Connection, from: number, to: number): Promise<void> {
  const [rows] = await connection.query<RowDataPacket[]>(
    `select r.counter_id as id
       from counter_rank r
       left join counter c on c.id = r.counter_id
      where r.counter_id > ${integer(from)} and r.counter_id <= ${integer(to)} and c.id is null`,
  )
  for (const { id } of rows) {
    await connection.query(`delete from counter_rank where counter_id = ${integer(id)}`)
  }
}
