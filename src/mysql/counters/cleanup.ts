import { DAY_MS, LONGEST_MS, PERIODS, type Period } from '../../core/time/calendar.ts'
import { BATCH, deleteFound, deleteWithParts, executeEach, inBatches, type JobContext } from '../batches.ts'
import { inTransaction } from '../connections/database.ts'
import { groupBy } from '../groupBy.ts'
import { instant, integer, list } from '../literals.ts'
import { select } from '../select.ts'
import { PERIOD_CODES, periodsIn } from './columns.ts'

/** Counters per statement: takes a few milliseconds. */
const PAGE = 500
/** How far back slots are folded: this many times the period's length, but at least this many days. */
const FOLDED_PERIODS = 4
const FOLDED_DAYS = 8
/** No period begins later. */
const END_OF_TIME = '99991231000000'

interface CounterRow {
  id: number
  periods: Buffer
  /** The most that it ever had. */
  most_slots: number
}

/** Counters with the same periods, that all had several slots or never did. */
type RetentionGroup = readonly [CounterRow, ...CounterRow[]]

/**
 * Deletes totals of periods whose retention has ended, and folds the slots of past periods into one. Runs in batches,
 * each in its own transaction, over rows that nobody writes any more, so no writer waits. Periods that ended less than
 * a day ago are left alone.
 *
 * @throws the first failure, after it has continued with the other counters
 */
export async function sweepPeriods(context: JobContext): Promise<void> {
  const { database, shouldContinue } = context
  const failures: unknown[] = []
  const onFailure = (error: unknown) => void failures.push(error)
  for (let from = 0; shouldContinue(); ) {
    const counters = await database.withRetry((connection) =>
      select<CounterRow>(
        connection,
        `select id, periods, most_slots
           from counter force index (primary)
          where id > ${integer(from)}
          order by id
          limit ${integer(PAGE)}`,
      ),
    )
    const groups = groupBy(counters, ({ periods, most_slots }) => `${periods} ${most_slots > 1}`)
    for (const group of groups.values()) await sweepGroup(context, group).catch(onFailure)
    const last = counters.at(-1)
    if (!last) break
    from = last.id
  }
  await sweepDeleted(context).catch(onFailure)
  if (failures.length > 0) throw failures[0]
}

/** @throws if their periods can't be parsed */
async function sweepGroup(context: JobContext, counters: RetentionGroup): Promise<void> {
  const [{ periods: text, most_slots }] = counters
  const periods = periodsIn(text.toString('latin1'))
  const ids = counters.map(({ id }) => id)
  const { now } = context
  for (const period of PERIODS) {
    const kept = periods.find((tracked) => tracked.period === period)
    const keepDays = kept ? kept.keepDays : 1
    if (keepDays !== null) {
      await deleteTotals(context, list(ids, integer), period, endedBefore(period, now, keepDays))
    }
    if (kept && most_slots > 1) {
      const before = endedBefore(period, now, 1)
      const days = Math.max((FOLDED_PERIODS * LONGEST_MS[period]) / DAY_MS, FOLDED_DAYS)
      await foldSlots(context, ids, period, { from: endedBefore(period, now, days), before })
    }
  }
}

/** A period that began before this instant ended at least this many days ago, in any time zone. */
function endedBefore(period: Period, now: Date, days: number): string {
  return instant(Math.max(0, now.getTime() - days * DAY_MS - LONGEST_MS[period]))
}

/** Deletes the totals of deleted counters. Nobody writes them: ids are not reused. */
function sweepDeleted(context: JobContext): Promise<void> {
  const deleted = `select id from deleted_counter order by id limit ${integer(PAGE)}`
  return deleteWithParts(context, { find: deleted, table: 'deleted_counter' }, async (ids) => {
    for (const period of PERIODS) await deleteTotals(context, ids, period, END_OF_TIME)
  })
}

type TotalRow = Record<'counter_id' | 'slot', number> & { starts_at: Date }

/** Deletes totals of periods that began before an instant. Both that and the counters' ids are literals. */
function deleteTotals(context: JobContext, ids: string, period: Period, before: string) {
  const past = `select counter_id, starts_at, slot
       from counter_value force index (primary)
      where counter_id in (${ids})
        and period = ${PERIOD_CODES[period]} and starts_at < ${before}
      limit ${integer(BATCH)}`
  return deleteFound(context, past, removal(period))
}

/**
 * Adds the other slots of past periods to slot 0, and deletes them. If a very late writer adds to another slot of such
 * a period, the next sweep folds that.
 */
async function foldSlots(
  context: JobContext,
  ids: readonly number[],
  period: Period,
  { from, before }: Record<'from' | 'before', string>,
): Promise<void> {
  const code = PERIOD_CODES[period]
  let left = ids
  await inBatches(context, async (connection) => {
    const folded = await inTransaction(connection, async () => {
      const rows = await select<TotalRow & { value: number | string }>(
        connection,
        `select counter_id, starts_at, slot, value
           from counter_value force index (primary)
          where counter_id in (${list(left, integer)})
            and period = ${code} and starts_at >= ${from} and starts_at < ${before}
            and slot > 0
          order by counter_id, starts_at, slot
          limit ${integer(BATCH)}
            for update`,
      )
      if (rows.length === 0) return rows
      const moved = rows.map(
        (row) =>
          `(${integer(row.counter_id)}, ${code}, ${instant(row.starts_at)}, 0, 0, ${BigInt(row.value)})`,
      )
      await connection.query(
        `insert into counter_value (counter_id, period, starts_at, slot, version, value)
         values ${moved.join(', ')}
         on duplicate key update value = value + values(value)`,
      )
      await executeEach(connection, rows.map(removal(period)))
      return rows
    })
    // Only after the commit: the transaction may be repeated.
    const last = folded.at(-1)?.counter_id ?? 0
    left = left.filter((id) => id >= last)
    return folded.length
  })
}

function removal(period: Period): (row: TotalRow) => string {
  return ({ counter_id, starts_at, slot }) =>
    `delete from counter_value
      where counter_id = ${integer(counter_id)} and period = ${PERIOD_CODES[period]}
        and starts_at = ${instant(starts_at)} and slot = ${integer(slot)}`
}
