import {
  type ColumnWrite,
  type FoundPeriod,
  type RunningPeriod,
  totalOf,
} from '../../core/counters/runningPeriods.ts'
import { type CounterRun, SMALL_SUM } from '../../core/groupCommit/counterRun.ts'
import { PERIODS, type Period } from '../../core/time/calendar.ts'
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
export function periodColumns(runs: readonly CounterRun[]): string[] {
  const each = new Set(runs.map(({ running }) => running))
  const periods = new Set([...each].flatMap((running) => running.map(({ period }) => period)))
  return [...periods].flatMap((period) => [COLUMNS[period].start, COLUMNS[period].added])
}

/** The running periods as a row shows them, before an addition that it includes. */
export function periodsFound({ running }: CounterRun, row: PeriodsRow, addition = 0): FoundPeriod[] {
  return running.map(({ period, start }) => {
    const [its, added] = [row[COLUMNS[period].start], row[COLUMNS[period].added]]
    const columns =
      its == null
        ? undefined
        : { period, start: 1000 * Number(its), added: BigInt(added ?? 0) - BigInt(addition) }
    return { period, start, columns, inHistory: 0n, elsewhere: 0n }
  })
}

/** Whether the columns have the running periods. */
export function areRunning(periods: readonly FoundPeriod[]): boolean {
  return periods.every(({ start, columns }) => columns?.start === start)
}

/** Maximum absolute value of totals that are changed without being read. */
const ROOMY = Number.MAX_SAFE_INTEGER - SMALL_SUM

/** Whether the columns have the running periods, with room for small additions: the condition of `andRoomyPeriods`. */
export function areRoomy(periods: readonly FoundPeriod[]): boolean {
  return areRunning(periods) && periods.every((one) => Math.abs(totalOf(one)) <= ROOMY)
}

/** The end of a condition, which begins with `and`; empty if no period is tracked. */
export function andRoomyPeriods(running: readonly RunningPeriod[]): string {
  return running
    .map(({ period, start }) => {
      const columns = COLUMNS[period]
      return ` and ${columns.start} = ${startSecond(start)} and ${isRoomy(columns.added)}`
    })
    .join('')
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
export function addingInPeriods(running: readonly RunningPeriod[], added: string): string {
  const adding = ({ period }: RunningPeriod) =>
    `${COLUMNS[period].added} = ${COLUMNS[period].added} + ${added}, `
  return running.map(adding).join('')
}

/** Names and values of the columns of a new row, in which these periods have begun. Each follows a comma. */
export function openedColumns(running: readonly RunningPeriod[]): Record<'names' | 'values', string> {
  return {
    names: running.map(({ period }) => `, ${COLUMNS[period].start}, ${COLUMNS[period].added}`).join(''),
    values: running.map(({ start }) => `, ${startSecond(start)}, 0`).join(''),
  }
}
