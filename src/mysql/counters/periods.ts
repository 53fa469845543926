import { type CounterWork, SMALL_SUM } from '../../commit/batch.ts'
import { PERIODS, type Period } from '../../rules/calendar.ts'
import { type ColumnWrite, type PeriodReading, type RunningPeriod, totalOf } from '../../rules/periods.ts'
import { integer } from '../literals.ts'

/** The columns of each period in a counter's row: the start of the period, and what was added in it. */
export const COLUMNS: Record<Period, { start: string; added: string }> = {
  HOUR: { start: 'hour_start', added: 'hour_added' },
  DAY: { start: 'day_start', added: 'day_added' },
  WEEK: { start: 'week_start', added: 'week_added' },
  MONTH: { start: 'month_start', added: 'month_added' },
  YEAR: { start: 'year_start', added: 'year_added' },
}

/** Empties the columns of all periods. */
export const NO_PERIODS = PERIODS.map(
  (period) => `${COLUMNS[period].start} = null, ${COLUMNS[period].added} = null`,
).join(', ')

/** A row with the columns of periods. */
export type PeriodsRow = Record<string, number | string | null>

/** The start of a period in the database, in seconds since 1970: none begins earlier. */
export function startSecond(start: number): string {
  return integer(Math.max(0, Math.floor(start / 1000)))
}

/** The columns of the periods that some counters track. */
export function periodColumns(works: readonly CounterWork[]): string[] {
  const each = new Set(works.map(({ running }) => running))
  const periods = new Set([...each].flatMap((running) => running.map(({ period }) => period)))
  return [...periods].flatMap((period) => [COLUMNS[period].start, COLUMNS[period].added])
}

/** The running periods as a row shows them, before an addition that it includes. */
export function periodsIn(row: PeriodsRow, running: readonly RunningPeriod[], sum: number): PeriodReading[] {
  return running.map(({ period, start }) => {
    const [second, added] = [row[COLUMNS[period].start], row[COLUMNS[period].added]]
    const columns =
      second == null
        ? undefined
        : { period, start: 1000 * Number(second), added: BigInt(added ?? 0) - BigInt(sum) }
    return { period, start, columns, inHistory: 0n, elsewhere: 0n }
  })
}

/** Whether the columns have the running periods. */
export function areRunning(periods: readonly PeriodReading[]): boolean {
  return periods.every(({ start, columns }) => columns?.start === start)
}

/** Maximum absolute value of totals that are changed without being read. */
const ROOMY = Number.MAX_SAFE_INTEGER - SMALL_SUM

/** Whether the columns have the running periods, with room for small additions: the condition of `andRoomyPeriods`. */
export function areRoomy(periods: readonly PeriodReading[]): boolean {
  return areRunning(periods) && periods.every((each) => Math.abs(totalOf(each)) <= ROOMY)
}

/** Cached, as all flushes until one of them ends have the same list. */
const conditions = new WeakMap<readonly RunningPeriod[], string>()

/** The end of a condition, which begins with `and`; empty if no period is tracked. */
export function andRoomyPeriods(running: readonly RunningPeriod[]): string {
  const cached = conditions.get(running)
  if (cached !== undefined) return cached
  const condition = running
    .map(({ period, start }) => {
      const columns = COLUMNS[period]
      return ` and ${columns.start} = ${startSecond(start)} and ${isRoomy(columns.added)}`
    })
    .join('')
  conditions.set(running, condition)
  return condition
}

/** Whether a total leaves room for small additions. */
export function isRoomy(column: string): string {
  return `${column} between ${-ROOMY} and ${ROOMY}`
}

/** Assignments of column writes, each followed by a comma. */
export function writingColumns(writes: readonly ColumnWrite[]): string {
  return writes
    .map(({ period, start, added, isOpened }) => {
      const columns = COLUMNS[period]
      if (!isOpened) return `${columns.added} = ${columns.added} + ${added}, `
      return `${columns.start} = ${startSecond(start)}, ${columns.added} = ${added}, `
    })
    .join('')
}

/** Assignments that add to all running periods, each followed by a comma. */
export function addingInPeriods(running: readonly RunningPeriod[], sum: string): string {
  let assignments = ''
  for (const { period } of running) {
    const { added } = COLUMNS[period]
    assignments += `${added} = ${added} + ${sum}, `
  }
  return assignments
}

/** Names and values of the columns of a new row, in which these periods have begun. Each follows a comma. */
export function openedColumns(running: readonly RunningPeriod[]): Record<'names' | 'values', string> {
  return {
    names: running.map(({ period }) => `, ${COLUMNS[period].start}, ${COLUMNS[period].added}`).join(''),
    values: running.map(({ start }) => `, ${startSecond(start)}, 0`).join(''),
  }
}
