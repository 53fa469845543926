import { type Retention, startsAt } from '../../core/counters/definition.ts'
import type { ColumnWrite, FoundPeriod, HistoryAddition } from '../../core/counters/runningPeriods.ts'
import { type CounterRun, SMALL_SUM } from '../../core/groupCommit/counterRun.ts'
import { PERIODS, type Period } from '../../core/time/calendar.ts'
import type { CounterMember } from '../flush/members.ts'
import { ownerOf, type Step, select } from '../flush/steps.ts'
import { groupBy } from '../groupBy.ts'
import { integer, list } from '../literals.ts'
import { PERIOD_CODES } from './columns.ts'

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

/** A row with the columns of periods: a start is in seconds since 1970. */
export type PeriodsRow = Record<string, number | string | null>

/** The start of a period in the database, in seconds since 1970: none begins earlier. */
export function startSecond(start: number): string {
  return integer(Math.max(0, Math.floor(start / 1000)))
}

/** The columns of the periods that some counters track. */
export function periodColumns(counters: readonly CounterMember[]): string[] {
  const definitions = new Set(counters.map(({ row }) => row.definition))
  const tracked = new Set([...definitions].flatMap(({ periods }) => periods.map(({ period }) => period)))
  return [...tracked].flatMap((period) => [COLUMNS[period].start, COLUMNS[period].added])
}

/** The tracked periods in a row, before an addition that it includes. */
export function periodsFound(
  { row: { definition } }: CounterRun,
  row: PeriodsRow,
  addition = 0,
): FoundPeriod[] {
  return definition.periods.map(({ period }) => {
    const start = row[COLUMNS[period].start]
    const added = BigInt(row[COLUMNS[period].added] ?? 0) - BigInt(addition)
    const columns = start == null ? undefined : { start: 1000 * Number(start), added }
    return { columns, inHistory: 0n, inOtherSlots: 0n }
  })
}

/** Whether a row has the running periods. */
export function isRunning({ row: { definition }, starts }: CounterRun, row: PeriodsRow): boolean {
  return definition.periods.every(
    ({ period }, index) => row[COLUMNS[period].start] === Number(startSecond(starts[index] ?? 0)),
  )
}

/** Maximum absolute value of totals that are changed without being read. */
const ROOMY = Number.MAX_SAFE_INTEGER - SMALL_SUM

/** Whether a row has the running periods, and all have room for small additions: the condition of `andRoomyPeriods`. */
export function hasRoomyPeriods(run: CounterRun, row: PeriodsRow): boolean {
  const isRoomy = ({ period }: { period: Period }) => Math.abs(Number(row[COLUMNS[period].added])) <= ROOMY
  return isRunning(run, row) && run.row.definition.periods.every(isRoomy)
}

/** The end of a condition, which begins with `and`; empty if no period is tracked. */
export function andRoomyPeriods({ row: { definition }, starts }: CounterRun): string {
  const { periods } = definition
  if (periods.length === 0) return ''
  const running = periods.map(
    ({ period }, index) => `${COLUMNS[period].start} = ${startSecond(starts[index] ?? 0)}`,
  )
  const totals = periods.map(({ period }) => `abs(${COLUMNS[period].added})`)
  const largest = totals.length === 1 ? totals.join() : `greatest(${totals.join(', ')})`
  return ` and ${running.join(' and ')} and ${largest} <= ${ROOMY}`
}

/** Assignments that add to all tracked periods, each followed by a comma. */
export function addingInPeriods({ row: { definition } }: CounterRun, addition: number): string {
  return definition.periods
    .map(({ period }) => `${COLUMNS[period].added} = ${COLUMNS[period].added} + ${integer(addition)}, `)
    .join('')
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

/** Adds the columns of a period to the history, from all slots of a counter, which are locked. */
export function closePeriods(id: number, period: Period): string {
  const { start, added } = COLUMNS[period]
  return `insert into counter_history (counter_id, period, start, value)
select counter_id, ${PERIOD_CODES[period]}, ${start}, ${added}
  from counter_value force index (primary)
 where counter_id = ${integer(id)} and ${start} is not null
   for update
on duplicate key update counter_history.value = counter_history.value + values(value)`
}

/** Names and values of the columns of a new row, in which the running periods have begun. Each follows a comma. */
export function openedColumns(retention: Retention, at: Date): Record<'names' | 'values', string> {
  const starts = startsAt(retention, at.getTime())
  const columns = retention.periods.map(({ period }) => COLUMNS[period])
  return {
    names: columns.map(({ start, added }) => `, ${start}, ${added}`).join(''),
    values: starts.map((start) => `, ${startSecond(start)}, 0`).join(''),
  }
}

/** Adds to history rows, in the order of the primary key: that of all processes. */
export function addToHistory(additions: readonly (HistoryAddition & { id: number })[]): string {
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

type HistoryRow = Record<'id' | 'period', number> & { value: number | string }

/**
 * Locks the history rows of the running periods of counters that were found, and reads them. After all other rows, in
 * the order of the primary key: that of all processes.
 */
export function historySteps(counters: readonly CounterMember[]): Step[] {
  const tracking = counters.filter(({ row }) => row.definition.periods.length > 0)
  if (tracking.length === 0) return []
  const conditions = [...groupBy(tracking, ({ run }) => run.starts).values()].map((group) => {
    const [{ row, run }] = group
    const running = row.definition.periods.map(
      ({ period }, index) =>
        `period = ${PERIOD_CODES[period]} and start = ${startSecond(run.starts[index] ?? 0)}`,
    )
    return `counter_id in (${list(group, ({ row }) => integer(row.id))}) and (${running.join(' or ')})`
  })
  const statement = `select counter_id as id, period, value
  from counter_history force index (primary)
 where ${conditions.join(' or ')}
 order by counter_id, period, start
   for update`
  return select<HistoryRow>(statement, ownerOf(counters), (rows) => addHistory(tracking, rows))
}

function addHistory(counters: readonly CounterMember[], rows: readonly HistoryRow[]): void {
  const found = groupBy(rows, ({ id }) => id)
  for (const member of counters) {
    const own = found.get(member.row.id)
    if (!own || !member.found?.periods) continue
    const periods = member.found.periods.map((one, index) => {
      const tracked = member.row.definition.periods[index]
      const row = own.find(({ period }) => tracked && period === PERIOD_CODES[tracked.period])
      return row ? { ...one, inHistory: BigInt(row.value) } : one
    })
    member.found = { ...member.found, periods }
  }
}
