import { PERIOD_CODES, parsePeriods } from '../../commit/periodStatements.ts'
import { DAY_MS, LONGEST_MS, PERIODS, type Period } from '../../rules/calendar.ts'
import { BATCH, deleteFound, deleteWithParts, type JobContext } from '../batches.ts'
import { groupBy } from '../groupBy.ts'
import { integer, list } from '../literals.ts'
import { select } from '../sql.ts'
import { startSecond } from './periods.ts'

/** Counters per statement: takes a few milliseconds. */
const PAGE = 500

interface TrackedCounterRow {
  id: number
  periods: Buffer
}

/** Counters with the same periods. */
type RetentionGroup = readonly [TrackedCounterRow, ...TrackedCounterRow[]]

/**
 * Deletes history rows whose retention has ended. Runs in batches, each in its own transaction, over rows that nobody
 * writes any more, so no writer waits. Periods that ended less than a day ago are left alone.
 *
 * @throws the first failure, after it has continued with the other counters
 */
export async function sweepPeriods(context: JobContext): Promise<void> {
  const { database, shouldContinue } = context
  const failures: unknown[] = []
  const onFailure = (error: unknown) => void failures.push(error)
  for (let from = 0; shouldContinue(); ) {
    const counters = await database.withRetry((connection) =>
      select<TrackedCounterRow>(
        connection,
        `select id, periods
           from counter force index (primary)
          where id > ${integer(from)}
          order by id
          limit ${integer(PAGE)}`,
      ),
    )
    const groups = groupBy(counters, ({ periods }) => String(periods))
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
  const periods = parsePeriods(counters[0].periods.toString('latin1'))
  const ids = list(counters, ({ id }) => integer(id))
  for (const period of PERIODS) {
    const kept = periods.find((tracked) => tracked.period === period)
    const keepDays = kept ? kept.keepDays : 1
    if (keepDays === null) continue
    // A period that began before this instant ended at least so many days ago, in any time zone.
    await deleteTotals(context, ids, period, context.now.getTime() - keepDays * DAY_MS - LONGEST_MS[period])
  }
}

/** Deletes the history of deleted counters. Nobody writes it: ids are not reused. */
function sweepDeleted(context: JobContext): Promise<void> {
  const deleted = `select id from deleted_counter order by id limit ${integer(PAGE)}`
  return deleteWithParts(context, { find: deleted, table: 'deleted_counter' }, async (ids) => {
    for (const period of PERIODS) await deleteTotals(context, ids, period)
  })
}

/** Deletes the totals of counters, whose ids are a list, for periods that began before an instant, or all. */
function deleteTotals(context: JobContext, ids: string, period: Period, before?: number) {
  const isPast = before === undefined ? '' : ` and start < ${startSecond(before)}`
  const past = `select counter_id, start
       from counter_history force index (primary)
      where counter_id in (${ids}) and period = ${PERIOD_CODES[period]}${isPast}
      limit ${integer(BATCH)}`
  return deleteFound<Record<'counter_id' | 'start', number>>(
    context,
    past,
    ({ counter_id, start }) =>
      `delete from counter_history
        where counter_id = ${integer(counter_id)} and period = ${PERIOD_CODES[period]} and start = ${integer(start)}`,
  )
}
