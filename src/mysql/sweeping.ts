import type { RowDataPacket } from 'mysql2'
import { LONGEST_MS, PERIODS, type Period } from '../core/calendar.ts'
import type { TrackedPeriod } from '../core/definition.ts'
import { type Connection, type Database, inTransaction } from './database.ts'
import { instant, integer } from './literals.ts'
import { PERIOD_CODES, retentionIn } from './retention.ts'

/** How many counters one statement looks at: it takes some milliseconds. */
const PAGE = 500
/** How many rows one transaction removes or puts together: it takes some milliseconds. */
const BATCH = 500
const DAY_MS = 86_400_000
/** How far back it is looked for slots that lie apart: so many times as long as the period, and so many days at least. */
const FOLDED_PERIODS = 4
const FOLDED_DAYS = 8
/** No period begins later. */
const END_OF_TIME = '99991231000000'

/** Counters of which the same is kept. */
interface Family {
  ids: number[]
  periods: readonly TrackedPeriod[]
  /** Whether any of them ever had slots. */
  isSpread: boolean
}

/**
 * Removes what is no longer to be kept of counters' periods, and puts the slots of past periods together. In batches,
 * each a transaction of its own, of rows that nobody writes any more: so no writer waits. Periods that ended less
 * than a day ago are left alone.
 *
 * What fails doesn't keep it from the others.
 *
 * @param mayGoOn asked between batches
 * @throws the first failure
 */
export async function sweepPeriods(database: Database, now: Date, mayGoOn: () => boolean): Promise<void> {
  const failures: unknown[] = []
  const note = (error: unknown) => void failures.push(error)
  for (let from = 0; mayGoOn(); ) {
    const counters = await database.repeatable((connection) => countersAfter(connection, from))
    for (const family of familiesOf(counters, note))
      await sweepFamily(database, family, now, mayGoOn).catch(note)
    const last = counters.at(-1)
    if (!last) break
    from = last.id
  }
  await sweepDeleted(database, mayGoOn).catch(note)
  if (failures.length > 0) throw failures[0]
}

/** The present time by the clock that all processes share: one that is ahead must not remove what is to be kept. */
export async function timeOf(database: Database): Promise<Date> {
  const [[row]] = await database.repeatable((connection) =>
    connection.query<RowDataPacket[]>('select utc_timestamp(3) as now'),
  )
  return row?.now
}

async function countersAfter(connection: Connection, id: number): Promise<RowDataPacket[]> {
  const [rows] = await connection.query<RowDataPacket[]>(
    `select id, periods, most_slots
       from counter force index (primary)
      where id > ${integer(id)}
      order by id
      limit ${integer(PAGE)}`,
  )
  return rows
}

/** What can't be understood of one counter doesn't keep the others from being swept. */
function familiesOf(counters: readonly RowDataPacket[], onFault: (error: unknown) => void): Family[] {
  const families = new Map<string, Family>()
  for (const { id, periods, most_slots } of counters) {
    const isSpread = most_slots > 1
    const text = `${periods} ${isSpread}`
    const family = families.get(text)
    if (family) {
      family.ids.push(id)
      continue
    }
    try {
      const tracked = retentionIn('UTC', periods.toString('latin1')).periods
      families.set(text, { ids: [id], periods: tracked, isSpread })
    } catch (error) {
      onFault(error)
    }
  }
  return [...families.values()]
}

async function sweepFamily(
  database: Database,
  { ids, periods, isSpread }: Family,
  now: Date,
  mayGoOn: () => boolean,
): Promise<void> {
  for (const period of PERIODS) {
    const kept = periods.find((tracked) => tracked.period === period)
    const keepDays = kept ? kept.keepDays : 1
    if (keepDays !== null) {
      const before = endedBefore(period, now, keepDays)
      await inBatches(database, mayGoOn, (connection) => removeOld(connection, ids, period, before))
    }
    if (kept && isSpread) {
      const before = endedBefore(period, now, 1)
      const days = Math.max((FOLDED_PERIODS * LONGEST_MS[period]) / DAY_MS, FOLDED_DAYS)
      const from = endedBefore(period, now, days)
      let left: readonly number[] = ids
      await inBatches(database, mayGoOn, async (connection) => {
        const { count, last } = await fold(connection, left, period, { from, before })
        left = left.filter((id) => id >= last)
        return count
      })
    }
  }
}

/** The instant before which those periods began that ended so many days ago, in any time zone. */
function endedBefore(period: Period, now: Date, days: number): string {
  return instant(new Date(Math.max(0, now.getTime() - days * DAY_MS - LONGEST_MS[period])))
}

/** Repeats work until it finds less than a full batch. */
async function inBatches(
  database: Database,
  mayGoOn: () => boolean,
  work: (connection: Connection) => Promise<number>,
): Promise<void> {
  while (mayGoOn()) if ((await database.repeatable(work)) < BATCH) return
}

async function removeOld(
  connection: Connection,
  ids: readonly number[],
  period: Period,
  before: string,
): Promise<number> {
  const [rows] = await connection.query<RowDataPacket[]>(
    `select counter_id, starts_at, slot
       from counter_value force index (primary)
      where counter_id in (${ids.map(integer).join(', ')})
        and period = ${PERIOD_CODES[period]} and starts_at < ${before}
      limit ${integer(BATCH)}`,
  )
  if (rows.length > 0) await inTransaction(connection, () => removeRows(connection, period, rows))
  return rows.length
}

/** Each by its whole key: a server may read, and lock, a small table from one end to the other otherwise. */
async function removeRows(
  connection: Connection,
  period: Period,
  rows: readonly RowDataPacket[],
): Promise<void> {
  for (const { counter_id, starts_at, slot } of rows) {
    await connection.query(
      `delete from counter_value
        where counter_id = ${integer(counter_id)} and period = ${PERIOD_CODES[period]}
          and starts_at = ${instant(starts_at)} and slot = ${integer(slot)}`,
    )
  }
}

/**
 * Moves what is in the other slots of past periods to the first. A writer that is very late may add to another slot
 * of such a period: then the next sweep moves that.
 *
 * @returns how many rows it moved, and the counter of the last one
 */
async function fold(
  connection: Connection,
  ids: readonly number[],
  period: Period,
  { from, before }: { from: string; before: string },
): Promise<{ count: number; last: number }> {
  return inTransaction(connection, async () => {
    const [rows] = await connection.query<RowDataPacket[]>(
      `select counter_id, starts_at, slot, value
         from counter_value force index (primary)
        where counter_id in (${ids.map(integer).join(', ')})
          and period = ${PERIOD_CODES[period]} and starts_at >= ${from} and starts_at < ${before}
          and slot > 0
        order by counter_id, starts_at, slot
        limit ${integer(BATCH)}
          for update`,
    )
    const last = rows.at(-1)
    if (!last) return { count: 0, last: 0 }
    const moved = rows.map(
      ({ counter_id, starts_at, value }) =>
        `(${integer(counter_id)}, ${PERIOD_CODES[period]}, ${instant(starts_at)}, 0, 0, ${BigInt(value)})`,
    )
    await connection.query(
      `insert into counter_value (counter_id, period, starts_at, slot, version, value)
       values ${moved.join(', ')}
       on duplicate key update value = value + values(value)`,
    )
    await removeRows(connection, period, rows)
    return { count: rows.length, last: last.counter_id }
  })
}

/** Removes the periods of counters that are deleted. Nobody writes to them: their ids are not used again. */
async function sweepDeleted(database: Database, mayGoOn: () => boolean): Promise<void> {
  while (mayGoOn()) {
    const [deleted] = await database.repeatable((connection) =>
      connection.query<RowDataPacket[]>(`select id from deleted_counter order by id limit ${integer(PAGE)}`),
    )
    if (deleted.length === 0) return
    const ids: number[] = deleted.map(({ id }) => id)
    for (const period of PERIODS) {
      await inBatches(database, mayGoOn, (connection) => removeOld(connection, ids, period, END_OF_TIME))
    }
    if (!mayGoOn()) return
    for (const id of ids) {
      await database.repeatable((connection) =>
        connection.query(`delete from deleted_counter where id = ${integer(id)}`),
      )
    }
  }
}
