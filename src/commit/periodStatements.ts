import { rowsOf } from '../mysql/session.ts'
import { bytes, groupBy, integer, list, orNull } from '../mysql/sql.ts'
import { PERIODS, type Period } from '../rules/calendar.ts'
import type { Definition } from '../rules/counter.ts'
import {
  addInPeriod,
  type ColumnWrite,
  type PeriodReading,
  type RunningPeriod,
  totalOf,
} from '../rules/periods.ts'
import { type CounterWork, type CounterWrite, SMALL_SUM } from './batch.ts'
import { type FlushText, idsOf, type Reader } from './statements.ts'

/** The columns that store a definition, with their values. */
export function definitionColumns(definition: Definition): Record<string, string> {
  const { minValue, maxValue, overflow, slots, oncePer, timeZone } = definition
  return {
    min_value: orNull(minValue, integer),
    max_value: orNull(maxValue, integer),
    saturates: String(overflow === 'SATURATE'),
    slots: integer(slots),
    once_per: periodCode(oncePer),
    time_zone: bytes(timeZone),
    periods: bytes(periodsText(definition)),
  }
}

/** Period codes in the database. */
export const PERIOD_CODES: Record<Period, number> = { HOUR: 1, DAY: 2, WEEK: 3, MONTH: 4, YEAR: 5 }

/** The code of a period; 0: none. */
export function periodCode(period: Period | null): string {
  return period === null ? '0' : String(PERIOD_CODES[period])
}

/**
 * The period of a code; null: none.
 *
 * @throws {Error} for one of a later version: as none, a sequence would never restart
 */
export function periodCoded(code: number | null): Period | null {
  if (code === null || code === 0) return null
  const found = PERIODS.find((period) => PERIOD_CODES[period] === code)
  if (!found) throw new Error(`Unknown period in the database: code ${code}`)
  return found
}

/** In the column `periods` of a counter that was ever held. */
export const HAS_HOLDS = 'HOLD'

/**
 * The column `periods`: `HOUR:90,DAY<20,MONTH@1793491200000,HOLD`. Versions that know neither limits nor holds refuse a
 * counter with one.
 */
export function periodsText({ periods, maxIn = [], hasHolds }: StoredPeriods): string {
  const texts = periods.map(({ period, keepDays, since }) => {
    const days = keepDays === null ? '' : `:${keepDays}`
    const limit = maxIn.find((each) => each.period === period)
    return period + days + (since === null ? '' : `@${since}`) + (limit ? `<${limit.max}` : '')
  })
  return [...texts, ...(hasHolds ? [HAS_HOLDS] : [])].join(',')
}

type StoredPeriods = Pick<Definition, 'periods'> & Partial<Pick<Definition, 'maxIn' | 'hasHolds'>>

/** The columns of each period in a counter's row: the start of the period, and its total. */
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

/** The running periods as a row shows them. */
export function periodsIn(row: PeriodsRow, running: readonly RunningPeriod[]): PeriodReading[] {
  return running.map(({ period, start }) => {
    const [second, added] = [row[COLUMNS[period].start], row[COLUMNS[period].added]]
    const columns =
      second == null ? undefined : { period, start: 1000 * Number(second), added: BigInt(added ?? 0) }
    return { period, start, columns, inHistory: 0n, elsewhere: 0n }
  })
}

/** Whether the columns have the running periods. */
export function areRunning(periods: readonly PeriodReading[]): boolean {
  return periods.every(({ start, columns }) => columns?.start === start)
}

/** Maximum absolute value of totals that are changed without being read. */
const ROOMY = Number.MAX_SAFE_INTEGER - SMALL_SUM

/** Whether the columns have the running periods, with room for small additions: the condition of additions. */
export function areRoomy(periods: readonly PeriodReading[]): boolean {
  return areRunning(periods) && periods.every((each) => Math.abs(totalOf(each)) <= ROOMY)
}

/** Whether a total leaves room for small additions. */
export function isRoomy(column: string): string {
  return `${column} between ${-ROOMY} and ${ROOMY}`
}

/** Assignments of what is added to columns, each followed by a comma. */
export function writingColumns(additions: readonly { column?: ColumnWrite }[]): string {
  return additions
    .map(({ column }) => {
      if (!column) return ''
      const { period, start, added, isOpened } = column
      const columns = COLUMNS[period]
      if (!isOpened) return `${columns.added} = ${columns.added} + ${added}, `
      return `${columns.start} = ${startSecond(start)}, ${columns.added} = ${added}, `
    })
    .join('')
}

/** Names and values of the columns of a new row, in which these periods have begun. Each follows a comma. */
export function openedColumns(running: readonly RunningPeriod[]): Record<'names' | 'values', string> {
  return {
    names: running.map(({ period }) => `, ${COLUMNS[period].start}, ${COLUMNS[period].added}`).join(''),
    values: running.map(({ start }) => `, ${startSecond(start)}, 0`).join(''),
  }
}

/**
 * Locks the history rows of the running periods of counters, and reads the totals of these periods. After all other
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

/** What a locked counter's operations add to its periods: to the columns, and to the history. */
export function partsOf({ before: { periods = [], now }, after: { added } }: CounterWrite) {
  return added === 0n ? [] : periods.map((each) => addInPeriod(each, added, now))
}

/** The statement that adds to history rows, if there is anything to add: in the order of all processes, by primary key. */
export function writeHistory(counters: readonly CounterWrite[]): string[] {
  const additions = counters.flatMap((write) => {
    const { id } = write.work.row
    const parts = write.after.isDeleted ? [] : partsOf(write)
    return parts
      .flatMap(({ history }) => history)
      .map(({ period, start, added }) => ({ id, code: PERIOD_CODES[period], start, added }))
  })
  if (additions.length === 0) return []
  additions.sort((a, b) => a.id - b.id || a.code - b.code || a.start - b.start)
  const values = list(
    additions,
    ({ id, code, start, added }) => `(${integer(id)},${code},${startSecond(start)},${added})`,
  )
  return [
    `insert into counter_history (counter_id, period, start, value)
values ${values}
on duplicate key update value = value + values(value)`,
  ]
}

/** Adds the columns of a period to the history, from all slots of a counter, which are locked. */
export function closePeriod(id: number, period: Period): string {
  const { start, added } = COLUMNS[period]
  return `insert into counter_history (counter_id, period, start, value)
select counter_id, ${PERIOD_CODES[period]}, ${start}, ${added}
  from counter_value force index (primary)
 where counter_id = ${integer(id)} and ${added} <> 0
   for update
on duplicate key update counter_history.value = counter_history.value + values(value)`
}
