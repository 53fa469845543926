import type { TrackedPeriod } from '../../core/counters/definition.ts'
import { DAY_MS, LONGEST_MS, PERIODS, type Period } from '../../core/time/calendar.ts'
import { executeEach, inBatches, type JobContext } from '../batches.ts'
import type { Connection } from '../connections/database.ts'
import { instant, integer } from '../literals.ts'
import { select } from '../select.ts'
import { deleteTotals, foldSlots } from './pastTotals.ts'
import { retentionIn } from './retention.ts'

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
  most_slots: number
}

/** Counters with the same retention. */
interface RetentionGroup {
  ids: number[]
  periods: readonly TrackedPeriod[]
  /** Whether they ever had more than one slot. */
  hadSlots: boolean
}

/**
 * Deletes totals of periods whose retention has ended, and folds the slots of past periods into one. Runs in batches,
 * each in its own transaction, over rows that nobody writes any more, so no writer waits. Periods that ended less than
 * a day ago are left alone.
 *
 * After a failure it continues with the other counters.
 *
 * @throws the first failure, at the end
 */
export async function sweepPeriods(context: JobContext): Promise<void> {
  const { database, shouldContinue } = context
  const failures: unknown[] = []
  const onFailure = (error: unknown) => void failures.push(error)
  for (let from = 0; shouldContinue(); ) {
    const counters = await database.withRetry((connection) => countersAfter(connection, from))
    for (const group of byRetention(counters, onFailure)) await sweepGroup(context, group).catch(onFailure)
    const last = counters.at(-1)
    if (!last) break
    from = last.id
  }
  await sweepDeleted(context).catch(onFailure)
  if (failures.length > 0) throw failures[0]
}

function countersAfter(connection: Connection, id: number): Promise<CounterRow[]> {
  return select(
    connection,
    `select id, periods, most_slots
       from counter force index (primary)
      where id > ${integer(id)}
      order by id
      limit ${integer(PAGE)}`,
  )
}

/** Reports and skips counters whose periods can't be parsed. */
function byRetention(
  counters: readonly CounterRow[],
  onFailure: (error: unknown) => void,
): Iterable<RetentionGroup> {
  const groups = new Map<string, RetentionGroup>()
  for (const { id, periods, most_slots } of counters) {
    const hadSlots = most_slots > 1
    const text = `${periods} ${hadSlots}`
    try {
      const group = groups.get(text) ?? {
        ids: [],
        periods: retentionIn('UTC', periods.toString('latin1')).periods,
        hadSlots,
      }
      group.ids.push(id)
      groups.set(text, group)
    } catch (error) {
      onFailure(error)
    }
  }
  return groups.values()
}

async function sweepGroup(context: JobContext, { ids, periods, hadSlots }: RetentionGroup): Promise<void> {
  const { now } = context
  for (const period of PERIODS) {
    const kept = periods.find((tracked) => tracked.period === period)
    const keepDays = kept ? kept.keepDays : 1
    if (keepDays !== null) {
      const before = endedBefore(period, now, keepDays)
      await inBatches(context, (connection) => deleteTotals(connection, ids, period, before))
    }
    if (kept && hadSlots) {
      const before = endedBefore(period, now, 1)
      const days = Math.max((FOLDED_PERIODS * LONGEST_MS[period]) / DAY_MS, FOLDED_DAYS)
      const from = endedBefore(period, now, days)
      let left: readonly number[] = ids
      await inBatches(context, async (connection) => {
        const { count, last } = await foldSlots(connection, left, period, { from, before })
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

/** Deletes the totals of deleted counters. Nobody writes them: ids are not reused. */
async function sweepDeleted(context: JobContext): Promise<void> {
  const { database, shouldContinue } = context
  while (shouldContinue()) {
    const deleted = await database.withRetry((connection) =>
      select<{ id: number }>(connection, `select id from deleted_counter order by id limit ${integer(PAGE)}`),
    )
    if (deleted.length === 0) return
    const ids = deleted.map(({ id }) => id)
    for (const period of PERIODS) {
      await inBatches(context, (connection) => deleteTotals(connection, ids, period, END_OF_TIME))
    }
    if (!shouldContinue()) return
    await database.withRetry((connection) =>
      executeEach(
        connection,
        ids.map((id) => `delete from deleted_counter where id = ${integer(id)}`),
      ),
    )
  }
}
