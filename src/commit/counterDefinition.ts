import { hex, instant, integer, list } from '../mysql/sql.ts'
import { calendarOf, HALF_MS, isKnownZone, type Period } from '../rules/calendar.ts'
import type { Definition } from '../rules/counter.ts'
import { historySourcesOf } from '../rules/periods.ts'
import type { CounterRow } from '../rules/rows.ts'
import { closePeriod, definitionColumns, NO_PERIODS, PERIOD_CODES, startSecond } from './periodStatements.ts'

/** Changes the definition of a locked counter, and the version of its rows. Their periods move to the history. */
export function redefine(row: CounterRow, definition: Definition, at: Date) {
  const { id, version, definition: present } = row
  const { slots, periods } = definition
  const columns = Object.entries(definitionColumns(definition))
  return [
    `update counter
   set ${columns.map(([column, value]) => `${column} = ${value}`).join(',\n       ')},
       version = ${integer(version + 1)}
 where id = ${integer(id)}`,
    ...present.periods.map(({ period }) => closePeriod(id, period)),
    ...(slots === present.slots ? [renew(row, at)] : spread(row, slots, at)),
    // Coarser periods first: they may be summed from finer ones, which must still be unchanged.
    ...periods.toReversed().flatMap(({ period }) => carryOver(row, definition, period, at.getTime())),
  ]
}

/** Forgets all subjects of a locked counter: with its new version, all processes read the salt that finds none of them. */
export function forgetSubjects({ id, version }: CounterRow, newSalt: string, at: Date): string[] {
  return [
    `update counter
   set version = ${integer(version + 1)},
       subject_salt = ${hex(newSalt)},
       forgotten_at = greatest(${startSecond(at.getTime())}, forgotten_at + 1)
 where id = ${integer(id)}`,
    `update counter_value set version = ${integer(version + 1)} where counter_id = ${integer(id)}`,
  ]
}

/** Deletes a locked counter for good: its id is never reused. The sweep deletes its history, the next copy its leaderboard rows. */
export function remove({ id }: CounterRow): string[] {
  return [
    `delete from counter_value where counter_id = ${integer(id)}`,
    `delete from counter where id = ${integer(id)}`,
    `insert ignore into deleted_counter (id) values (${integer(id)})`,
  ]
}

function renew({ id, version }: CounterRow, at: Date): string {
  return `update counter_value
   set revision = revision + (slot = 0),
       created_at = coalesce(created_at, ${instant(at)}),
       version = ${integer(version + 1)},
       ${NO_PERIODS}
 where counter_id = ${integer(id)}`
}

/** The sum of rows. Beyond the safe range it is null, which fails. */
const SAFE_SUM = `if(coalesce(sum(value), 0) between ${Number.MIN_SAFE_INTEGER} and ${Number.MAX_SAFE_INTEGER},
       coalesce(sum(value), 0), null)`

/** Temporary slot for the sum of the others: no counter has so many slots. */
const SPARE_SLOT = 65_535

/** Changes the number of slots of a counter, which are locked. The first one gets the sum. */
function spread({ id, version: present }: CounterRow, slots: number, at: Date) {
  const version = present + 1
  const own = `counter_id = ${integer(id)}`
  const others = Array.from({ length: slots - 1 }, (_, index) => index + 1)
  const insertOthers = `insert into counter_value (counter_id, slot, version, value)
values ${list(others, (slot) => `(${integer(id)}, ${integer(slot)}, ${integer(version)}, 0)`)}`
  return [
    // A locking read: a plain one may miss the writes of a transaction that has just released its locks.
    `insert into counter_value (counter_id, slot, version, value, revision, created_at, updated_at)
select ${integer(id)}, ${SPARE_SLOT}, ${integer(version)}, ${SAFE_SUM}, sum(revision) + 1,
       coalesce(min(created_at), ${instant(at)}), max(updated_at)
  from counter_value force index (primary)
 where ${own}
   for update`,
    `delete from counter_value where ${own} and slot < ${SPARE_SLOT}`,
    `update counter_value set slot = 0 where ${own} and slot = ${SPARE_SLOT}`,
    ...(others.length > 0 ? [insertOthers] : []),
  ]
}

/**
 * Rewrites the history row of a running period with its total: after a change of the time zone, from the rows whose
 * middle lies in the period or later; and from finer periods, for what only they contain.
 */
function carryOver({ id, definition: present }: CounterRow, next: Definition, period: Period, at: number) {
  const kept = present.periods.find((tracked) => tracked.period === period)
  if (kept && next.timeZone === present.timeZone) return []
  const { start, end } = calendarOf(next.timeZone).bucketAt(period, at)
  const isKnown = isKnownZone(present.timeZone)
  const before = isKnown ? calendarOf(present.timeZone).bucketAt(period, at).start : undefined
  if (kept && start === before) return []
  const since = kept?.since ?? 0
  const code = PERIOD_CODES[period]
  const earliest = kept ? start - HALF_MS[period] : start
  const own = `period = ${code} and start >= ${startSecond(Math.max(earliest, since))}`
  const stretch = { period, from: start, to: kept ? since : end }
  const past = isKnown ? present : { ...present, timeZone: next.timeZone }
  const finer = stretch.from < stretch.to ? historySourcesOf(past, stretch, at) : []
  const parts = finer
    .filter((source) => source.period !== period)
    .map(
      ({ period, from, to }) =>
        `period = ${PERIOD_CODES[period]} and start >= ${startSecond(from)} and start < ${startSecond(to)}`,
    )
  const from = kept ? [own, ...parts] : parts
  return [
    // A locking read: a plain one may miss the writes of a transaction that has just released its locks.
    `insert into counter_history (counter_id, period, start, value)
select ${integer(id)}, ${code}, ${startSecond(start)}, ${SAFE_SUM}
  from counter_history force index (primary)
 where counter_id = ${integer(id)} and (${from.map((part) => `(${part})`).join(' or ') || 'false'})
   for update
on duplicate key update value = values(value)`,
    // Including rows left from an earlier retention of this period, maybe in another time zone.
    `delete from counter_history
 where counter_id = ${integer(id)} and period = ${code}
   and start >= ${startSecond(earliest)} and start <> ${startSecond(start)}`,
  ]
}
