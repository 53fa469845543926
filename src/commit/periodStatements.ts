import { LRUCache } from 'lru-cache'
import { rowsOf } from '../mysql/session.ts'
import { bytes, groupBy, integer, list, type NamedRow, nameIn, orNull } from '../mysql/sql.ts'
import { PERIODS, type Period } from '../rules/calendar.ts'
import {
  type CounterState,
  type Definition,
  type TrackedPeriod,
  UNBOUNDED,
  unwritten,
} from '../rules/counter.ts'
import { type ColumnWrite, type PeriodReading, type RunningPeriod, totalOf } from '../rules/periods.ts'
import { type CounterWork, SMALL_SUM } from './batch.ts'
import { type FlushText, idsOf, type Reader } from './statements.ts'

/** Columns of a counter's definition. Table alias: c. */
export const DEFINITION =
  "c.min_value, c.max_value, c.saturates, concat_ws(' ', c.slots, c.once_per, c.time_zone, c.periods) as kept"

export type DefinitionRow = Record<'min_value' | 'max_value', number | null> & {
  saturates: number
  kept: Buffer
}

/** Join condition of a counter's first row. Table aliases: c and v. */
export const JOIN_VALUE = 'v.counter_id = c.id and v.slot = 0'

/** A counter exists for readers from its first change or definition on. */
export const COUNTER_EXISTS = 'v.created_at is not null'

/** Expressions for a counter's row, or over all of them if it has slots. */
export const VALUE = overSlots('cast(sum(s.value) as signed)', 'v.value')
export const UPDATED_AT = overSlots('max(s.updated_at)', 'v.updated_at')
export const REVISION = overSlots('cast(sum(s.revision) as unsigned)', 'v.revision')

/**
 * Columns of a counter. Table aliases: n, c and v. The sums of a counter with slots are one text: each subquery costs
 * every read a few percent of its time, even if no counter has slots.
 */
export const STATE = `n.name as namespace, c.name, ${DEFINITION},
                v.created_at, v.value, v.revision, v.updated_at,
                ${overSlots("concat_ws(' ', sum(s.value), sum(s.revision), max(s.updated_at))", 'null')} as slotted`

export interface StateRow extends DefinitionRow, NamedRow {
  /** Null: created by a call that was refused, or is still in flight. */
  created_at: Date | null
  value: number
  revision: number | string
  updated_at: Date | null
  slotted: string | null
}

export function stateIn(row: StateRow): CounterState {
  // No spread and no destructuring of arrays: they take more time here than the whole rest of the read.
  const { namespace, name } = nameIn(row)
  const sums = row.slotted?.split(' ')
  const revision = Number(sums?.[1] ?? row.revision)
  if (row.created_at === null) return unwritten({ namespace, name }, revision)
  return {
    namespace,
    name,
    value: Number(sums?.[0] ?? row.value),
    definition: definitionIn(row),
    createdAt: row.created_at,
    // If no slot has a time, neither has the first.
    updatedAt: sums?.[2] === undefined ? row.updated_at : new Date(`${sums[2]}T${sums[3]}Z`),
    revision,
  }
}

/** Cached definitions without bounds. Most counters share a few. */
const unbounded = new LRUCache<string, Definition>({
  max: 1000,
  memoMethod(text) {
    const [slots, once, timeZone = '', periods = ''] = text.split(' ')
    const kept = { slots: Number(slots), oncePer: periodCoded(Number(once)) }
    return { ...UNBOUNDED, ...kept, timeZone, periods: parsePeriods(periods) }
  },
})

export function definitionIn(row: DefinitionRow): Definition {
  const { min_value: minValue, max_value: maxValue, saturates } = row
  const definition = unbounded.memo(row.kept.toString('latin1'))
  if (minValue === null && maxValue === null && !saturates) return definition
  return { ...definition, minValue, maxValue, overflow: saturates ? 'SATURATE' : 'REJECT' }
}

/** The columns that store a definition, with their values. */
export function definitionColumns(definition: Definition): Record<string, string> {
  const { minValue, maxValue, overflow, slots, oncePer, timeZone, periods } = definition
  return {
    min_value: orNull(minValue, integer),
    max_value: orNull(maxValue, integer),
    saturates: String(overflow === 'SATURATE'),
    slots: integer(slots),
    once_per: periodCode(oncePer),
    time_zone: bytes(timeZone),
    periods: bytes(periodsText(periods)),
  }
}

/** Period codes in the database. */
export const PERIOD_CODES: Record<Period, number> = { HOUR: 1, DAY: 2, WEEK: 3, MONTH: 4, YEAR: 5 }

/** The code of a period; 0: none. */
export function periodCode(period: Period | null): string {
  return period === null ? '0' : String(PERIOD_CODES[period])
}

/** The period of a code; null: none. */
export function periodCoded(code: number | null): Period | null {
  return PERIODS.find((period) => PERIOD_CODES[period] === code) ?? null
}

/** Parses the column `periods`. */
export function parsePeriods(text: string): TrackedPeriod[] {
  if (text === '') return []
  return text.split(',').map((tracked) => {
    const [, name, days, since] = /^([A-Z]+)(?::(\d+))?(?:@(-?\d+))?$/.exec(tracked) ?? []
    const period = PERIODS.find((known) => known === name)
    if (!period) throw new Error(`Unknown period in the database: "${tracked}"`)
    return { period, keepDays: days ? Number(days) : null, since: since ? Number(since) : null }
  })
}

/** The column `periods`: `HOUR:90,DAY,MONTH@1793491200000`. */
export function periodsText(periods: readonly TrackedPeriod[]): string {
  return periods
    .map(({ period, keepDays, since }) => {
      const days = keepDays === null ? '' : `:${keepDays}`
      return period + days + (since === null ? '' : `@${since}`)
    })
    .join(',')
}

function overSlots(all: string, one: string): string {
  return `if(c.slots = 1, ${one}, (
            select ${all}
              from counter_value s
             where s.counter_id = c.id))`
}

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

/** Adds the columns of a period to the history, from all slots of counters, which are locked. */
export function closePeriods(ids: readonly number[], period: Period): string {
  const { start, added } = COLUMNS[period]
  return `insert into counter_history (counter_id, period, start, value)
select counter_id, ${PERIOD_CODES[period]}, ${start}, ${added}
  from counter_value force index (primary)
 where counter_id in (${list(ids, integer)}) and ${added} <> 0
   for update
on duplicate key update counter_history.value = counter_history.value + values(value)`
}
