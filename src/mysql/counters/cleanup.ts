import type { RowDataPacket } from 'mysql2'
import type { TrackedPeriod } from '../../core/counters/definition.ts'
import { LONGEST_MS, PERIODS, type Period } from '../../core/time/calendar.ts'
import { type Connection, type Database, inTransaction } from '../connections/database.ts'
import { instant, integer } from '../literals.ts'
import { PERIOD_CODES, retentionIn } from './retention.ts'

/** Counters per statement: takes a few milliseconds. */
const PAGE = 500
/** Rows that one transaction deletes or folds: takes a few milliseconds. */
const BATCH = 500
const DAY_MS = 86_400_000
/** How far back slots are folded: this many times the period's length, but at least this many days. */
const FOLDED_PERIODS = 4
const FOLDED_DAYS = 8
/** No period begins later. */
const END_OF_TIME = '99991231000000'

/** Counters that keep the same periods. */
interface Family {
  ids: number[]
  periods: readonly TrackedPeriod[]
  /** Whether they ever had more than one slot. */
  isSpread: boolean
}

/**
 * Deletes totals of periods whose retention has ended, and folds the slots of past periods into one. Runs in batches,
 * each in its own transaction, over rows that nobody writes any more, so no writer waits. Periods that ended less than
 * a day ago are left alone.
 *
 * After a failure it continues with the other counters.
 *
 * @param mayGoOn called between batches; false: stop
 * @throws the first failure, at the end
 */
export async function sweepPeriods(database: Database, now: Date, mayGoOn: () => boolean): Promise<void> {
  const failures: unknown[] = []
  const note = (error: unknown) => void failures.push(error)
  for (let from = 0; mayGoOn(); ) {
    const counters = await database.withRetry((connection) => countersAfter(connection, from))
    for (const family of familiesOf(counters, note))
      await sweepFamily(database, family, now, mayGoOn).catch(note)
    const last = counters.at(-1)
    if (!last) break
    from = last.id
  }
  await sweepDeleted(database, mayGoOn).catch(note)
  if (failures.length > 0) throw failures[0]
}

/** The time of the database's clock: a process whose clock is ahead must not delete totals too early. */
export async function timeOf(database: Database): Promise<Date> {
  const [[row]] = await database.withRetry((connection) =>
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

/** Groups counters by what they keep. Reports and skips those whose periods can't be parsed. */
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

/** A period that began before this instant ended at least this many days ago, in any time zone. */
function endedBefore(period: Period, now: Date, days: number): string {
  return instant(new Date(Math.max(0, now.getTime() - days * DAY_MS - LONGEST_MS[period])))
}

/** Repeats work until it returns less than a full batch. */
async function inBatches(
  database: Database,
  mayGoOn: () => boolean,
  work: (connection: Connection) => Promise<number>,
): Promise<void> {
  while (mayGoOn()) if ((await database.withRetry(work)) < BATCH) return
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

/** Each by its full primary key: otherwise a server may scan, and lock, all of a small table. */
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
 * Adds the other slots of past periods to slot 0, and deletes them. If a very late writer adds to another slot of such
 * a period, the next sweep folds that.
 *
 * @returns the number of rows folded, and the counter of the last one
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

/** Deletes the totals of deleted counters. Nobody writes them: ids are not reused. */
async function sweepDeleted(database: Database, mayGoOn: () => boolean): Promise<void> {
  while (mayGoOn()) {
    const [deleted] = await database.withRetry((connection) =>
      connection.query<RowDataPacket[]>(`select id from deleted_counter order by id limit ${integer(PAGE)}`),
    )
    if (deleted.length === 0) return
    const ids: number[] = deleted.map(({ id }) => id)
    for (const period of PERIODS) {
      await inBatches(database, mayGoOn, (connection) => removeOld(connection, ids, period, END_OF_TIME))
    }
    if (!mayGoOn()) return
    for (const id of ids) {
      await database.withRetry((connection) =>
        connection.query(`delete from deleted_counter where id = ${integer(id)}`),
      )
    }
  }
}
