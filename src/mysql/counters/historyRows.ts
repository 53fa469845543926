import type { CounterWork } from '../../commit/batch.ts'
import { PERIOD_CODES } from '../../commit/periodStatements.ts'
import { type FlushText, idsOf, type Reader } from '../../commit/statements.ts'
import type { Period } from '../../rules/calendar.ts'
import type { PeriodAddition } from '../../rules/periods.ts'
import { groupBy } from '../groupBy.ts'
import { integer, list } from '../literals.ts'
import { rowsOf } from '../session.ts'
import { COLUMNS, startSecond } from './periods.ts'

/** Adds to history rows, in the order of the primary key: that of all processes. */
export function addToHistory(additions: readonly (PeriodAddition & { id: number })[]): string {
  const sorted = additions
    .map(({ id, period, start, added }) => ({ id, code: PERIOD_CODES[period], start, added }))
    .sort((a, b) => a.id - b.id || a.code - b.code || a.start - b.start)
  const values = list(
    sorted,
    ({ id, code, start, added }) => `(${integer(id)},${code},${startSecond(start)},${added})`,
  )
  return `insert into counter_history (counter_id, period, start, value)
values ${values}
on duplicate key update value = value + values(value)`
}

/**
 * Locks the history rows of the running periods of counters, and reads what was added in these periods. After all other
 * rows, in the order of the primary key: that of all processes.
 */
export function lockHistory(
  works: readonly CounterWork[],
  text: FlushText,
): Reader<(id: number, period: Period) => bigint> {
  const tracking = works.filter(({ running }) => running.length > 0)
  if (tracking.length === 0) return () => () => 0n
  const conditions = [...groupBy(tracking, ({ running }) => running)].map(([running, group]) => {
    const periods = running.map(
      ({ period, start }) => `period = ${PERIOD_CODES[period]} and start = ${startSecond(start)}`,
    )
    return `counter_id in (${idsOf(group)}) and (${periods.join(' or ')})`
  })
  const lockedAt = text.add(
    `select counter_id as id, period, value
  from counter_history force index (primary)
 where ${conditions.join(' or ')}
 order by counter_id, period, start
   for update`,
  )
  return (answers) => {
    const rows = rowsOf<Record<'id' | 'period', number> & { value: number | string }>(answers[lockedAt])
    const amounts = new Map(rows.map(({ id, period, value }) => [`${id} ${period}`, BigInt(value)]))
    return (id, period) => amounts.get(`${id} ${PERIOD_CODES[period]}`) ?? 0n
  }
}

/** Adds the columns of a period to the history, from all slots of a counter, which are locked. */
export function closePeriods(id: number, period: Period): string {
  const { start, added } = COLUMNS[period]
  return `insert into counter_history (counter_id, period, start, value)
select counter_id, ${PERIOD_CODES[period]}, ${start}, ${added}
  from counter_value force index (primary)
 where counter_id = ${integer(id)} and ${added} <> 0
   for update
on duplicate key update counter_history.value = counter_history.value + values(value)`
}
