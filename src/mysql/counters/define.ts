import type { Definition } from '../../core/counters/definition.ts'
import { historySourcesOf } from '../../core/counters/historySources.ts'
import { calendarOf, HALF_MS, type Period } from '../../core/time/calendar.ts'
import { bytes, instant, integer, orNull } from '../literals.ts'
import { raisedRevision } from '../revisions.ts'
import { PERIOD_CODES, periodsText } from './columns.ts'
import { replacedBySum, spread } from './slots.ts'
import { allTime, type CounterRecord, type Marks } from './update.ts'

/** Locks a counter's definition and its leaderboard row, to change or delete them. */
export function lockDefinition({ id }: CounterRecord): string[] {
  return [
    `select id from counter force index (primary) where id = ${integer(id)} for update`,
    `select counter_id from leaderboard force index (primary) where counter_id = ${integer(id)} for update`,
  ]
}

/** Changes the definition of a locked counter, and the version of its all-time rows. */
export function redefine(row: CounterRecord, definition: Definition, noted: Marks): string[] {
  const { id, version, definition: present } = row
  const { bounds, slots, timeZone, periods } = definition
  const { minValue = null, maxValue = null, overflow } = bounds ?? {}
  const isSpread = slots !== present.slots
  return [
    `update counter
   set min_value = ${orNull(minValue, integer)},
       max_value = ${orNull(maxValue, integer)},
       saturates = ${overflow === 'SATURATE'},
       slots = ${integer(slots)},
       most_slots = greatest(most_slots, ${integer(slots)}),
       time_zone = ${bytes(timeZone)},
       periods = ${bytes(periodsText(periods))},
       version = ${integer(version + 1)}
 where id = ${integer(id)}`,
    ...(isSpread ? spread(id, slots, version + 1, noted) : [renew(row, noted)]),
    // Coarser periods first: they may be summed from finer ones, which must still be unchanged.
    ...periods.toReversed().flatMap(({ period }) => carryOver(row, definition, period, noted.at.getTime())),
  ]
}

/** Deletes a locked counter for good: its id is never reused. The sweep deletes its other totals. */
export function remove({ id }: CounterRecord): string[] {
  return [
    `delete from counter_value where counter_id = ${integer(id)} and ${allTime()}`,
    `delete from counter where id = ${integer(id)}`,
    `delete from leaderboard where counter_id = ${integer(id)}`,
    `insert ignore into deleted_counter (id) values (${integer(id)})`,
  ]
}

function renew({ id, version }: CounterRecord, { at, first }: Marks): string {
  return `update counter_value
   set ${raisedRevision('slot = 0 and created_at is null', '(slot = 0)', first)},
       created_at = coalesce(created_at, ${instant(at)}),
       version = ${integer(version + 1)}
 where counter_id = ${integer(id)} and ${allTime()}`
}

/**
 * Rewrites the row of a current period with its total: after a change of the time zone, from the rows whose middle lies
 * in the period or later; and from finer periods, for what only they contain.
 */
function carryOver({ id, definition: present }: CounterRecord, next: Definition, period: Period, at: number) {
  const { start, end } = calendarOf(next.timeZone).bucketAt(period, at)
  const before = calendarOf(present.timeZone).bucketAt(period, at).start
  const kept = present.periods.find((tracked) => tracked.period === period)
  if (kept && next.slots === present.slots && start === before) return []
  const { since, code } = { since: kept?.since ?? 0, code: PERIOD_CODES[period] }
  const earliest = kept && start !== before ? start - HALF_MS[period] : start
  const own = `period = ${code} and starts_at >= ${instant(Math.max(earliest, since))}`
  const stretch = { period, from: start, to: kept ? since : end }
  const finer = stretch.from < stretch.to ? historySourcesOf(present, stretch, at) : []
  const parts = finer
    .filter((source) => source.period !== period)
    .map(
      ({ period, from, to }) =>
        `period = ${PERIOD_CODES[period]} and starts_at >= ${instant(from)} and starts_at < ${instant(to)}`,
    )
  return replacedBySum(id, {
    period: code,
    startsAt: instant(start),
    from: kept ? [own, ...parts] : parts,
    // Including rows left from an earlier retention of this period, maybe in another time zone.
    replaced: `period = ${code} and starts_at >= ${instant(earliest)}`,
  })
}
