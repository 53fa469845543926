import { LRUCache } from 'lru-cache'
import type { Bounds, Definition, TrackedPeriod } from '../core/counters/definition.ts'
import { type CounterState, unwritten } from '../core/counters/state.ts'
import { bytes, integer, orNull } from '../mysql/literals.ts'
import { type NamedRow, nameIn } from '../mysql/sql.ts'
import { PERIODS, type Period } from '../rules/calendar.ts'

/** Columns of a counter's definition. Table alias: c. */
export const DEFINITION =
  "c.min_value, c.max_value, c.saturates, concat_ws(' ', c.slots, c.time_zone, c.periods) as kept"

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
    const [slots, timeZone = '', periods = ''] = text.split(' ')
    return { bounds: undefined, slots: Number(slots), timeZone, periods: parsePeriods(periods) }
  },
})

export function definitionIn({ min_value: minValue, max_value: maxValue, saturates, kept }: DefinitionRow) {
  const definition = unbounded.memo(kept.toString('latin1'))
  if (minValue === null && maxValue === null && !saturates) return definition
  const bounds: Bounds = { minValue, maxValue, overflow: saturates ? 'SATURATE' : 'REJECT' }
  return { ...definition, bounds }
}

/** The columns that store a definition, and their values in the same order. */
export const DEFINITION_COLUMNS = ['min_value', 'max_value', 'saturates', 'slots', 'time_zone', 'periods']

export function definitionValues({ bounds, slots, timeZone, periods }: Definition): string[] {
  const { minValue = null, maxValue = null, overflow } = bounds ?? {}
  const limits = [orNull(minValue, integer), orNull(maxValue, integer), String(overflow === 'SATURATE')]
  return [...limits, integer(slots), bytes(timeZone), bytes(periodsText(periods))]
}

/** The assignments that store a definition. */
export function definitionSet(definition: Definition): string {
  const values = definitionValues(definition)
  return DEFINITION_COLUMNS.map((column, index) => `${column} = ${values[index]}`).join(',\n       ')
}

/** Period codes in the database. */
export const PERIOD_CODES: Record<Period, number> = { HOUR: 1, DAY: 2, WEEK: 3, MONTH: 4, YEAR: 5 }

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
