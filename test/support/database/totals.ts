import type { Target } from '../../../src/mysql/settings.ts'
import { PERIODS, type Period } from '../../../src/rules/calendar.ts'
import { query } from './database.ts'

/** The total of a counter's period, which starts at `start`. */
export interface PeriodTotal {
  id: number
  period: Period
  start: Date
  value: number
}

/** All totals of periods, from the history and from the columns of values: by counter, period and start. */
export async function periodTotals(target: Target): Promise<PeriodTotal[]> {
  const columns = PERIODS.map((period, index) => {
    const [start, added] = [`${period.toLowerCase()}_start`, `${period.toLowerCase()}_added`]
    return `select counter_id, ${index + 1}, ${start}, ${added} from counter_value where ${start} is not null`
  })
  const rows = await query(
    target,
    `select id, period, start, cast(sum(value) as signed) as value
       from (select counter_id as id, period, start, value from counter_history
             union all ${columns.join(' union all ')}) totals
      group by id, period, start
      order by id, period, start`,
  )
  return rows.map(({ id, period, start, value }) => ({
    id,
    period: PERIODS[period - 1] ?? 'HOUR',
    start: new Date(1000 * start),
    value,
  }))
}

/** The sum of all values, and of all totals of hours, days and months. */
export async function sums(target: Target): Promise<number[]> {
  const [all] = await query(target, 'select cast(sum(value) as signed) as value from counter_value')
  const totals = await periodTotals(target)
  const sumOf = (wanted: Period) =>
    totals.reduce((sum, { period, value }) => sum + (period === wanted ? value : 0), 0)
  return [all?.value, sumOf('HOUR'), sumOf('DAY'), sumOf('MONTH')]
}
