import { calendarOf, PERIODS, type Period } from '../../rules/calendar.ts'
import { NthError } from '../../rules/errors.ts'
import { type Change, withChange } from '../change.ts'

export interface Definition extends Retention {
  /** Allowed values; undefined: any. */
  bounds: Bounds | undefined
  /** Rows that its value is split across. 1: returned numbers are exact. */
  slots: number
}

/** Which totals are kept besides a counter's value. New counters take their namespace's. */
export interface Retention {
  /** IANA name of the time zone in which periods begin. */
  timeZone: string
  /** Each at most once, finest first. */
  periods: readonly TrackedPeriod[]
}

export interface TrackedPeriod {
  period: Period
  /** How many days totals are kept after the period ends; null: forever. */
  keepDays: number | null
  /** Start of the complete totals, in milliseconds since 1970; null: all are. Earlier: finer periods only. */
  since: number | null
}

export type DefinitionChange = Change<Bounds & Pick<Definition, 'slots'>> & RetentionChange

/** A change of retention. A counter's defaults are those of its namespace. */
export type RetentionChange = Change<{ timeZone: string; periods: readonly PeriodChoice[] }>

export interface PeriodChoice {
  period: Period
  /** Undefined or null: forever. */
  keepDays?: number | null | undefined
}

export const MAX_SLOTS = 1024

/** Longest retention other than forever: a hundred years. */
export const MAX_KEEP_DAYS = 36_500

export const DEFAULT_RETENTION: Retention = {
  timeZone: 'UTC',
  periods: periodsOf([{ period: 'HOUR', keepDays: 90 }, { period: 'DAY' }, { period: 'MONTH' }]),
}

/** The chosen periods, finest first, with complete totals. */
export function periodsOf(chosen: readonly PeriodChoice[]): TrackedPeriod[] {
  return chosen
    .map(({ period, keepDays = null }) => ({ period, keepDays, since: null }))
    .toSorted((a, b) => PERIODS.indexOf(a.period) - PERIODS.indexOf(b.period))
}

/**
 * The definition of a counter with a value after a change at an instant; an error if it is invalid. Null retention
 * counts as unchanged: `Counters.define` has replaced it.
 */
export function changedDefinition(
  present: Definition,
  change: DefinitionChange,
  value: number,
  at: number,
): Definition | NthError {
  const bounds = changedBounds(present.bounds, change)
  if (bounds instanceof NthError) return bounds
  const slots = change.slots === undefined ? present.slots : (change.slots ?? 1)
  const isBounded = bounds.minValue !== null || bounds.maxValue !== null
  if (slots > 1 && isBounded) {
    const bound = change.maxValue == null ? 'minValue' : 'maxValue'
    const argument = `definition.${change.slots === undefined ? bound : 'slots'}`
    const message = `A counter with ${slots} slots cannot have bounds, as no slot holds the total value. Nothing was changed.`
    return new NthError('BAD_USER_INPUT', message, { argument })
  }
  const fault = misfit(bounds, value)
  if (fault) return fault
  const timeZone = change.timeZone ?? present.timeZone
  const calendar = calendarOf(timeZone)
  const periods = periodsOf(change.periods ?? present.periods).map((wanted) => {
    const before = present.periods.find(({ period }) => period === wanted.period)
    const { start } = calendar.bucketAt(wanted.period, at)
    // Periods that were tracked before continue. In another time zone the current one may start earlier: then its row
    // receives all additions since its start.
    const since = before ? before.since && Math.min(before.since, start) : start
    return { ...wanted, since }
  })
  const isDefault = !isBounded && bounds.overflow === UNBOUNDED.overflow
  return { bounds: isDefault ? undefined : bounds, slots, timeZone, periods }
}

/** Null: unbounded. */
export interface Bounds {
  minValue: number | null
  maxValue: number | null
  /** Effect of an addition that would cross a bound: it is refused, or applied up to the bound. */
  overflow: 'REJECT' | 'SATURATE'
}

export const UNBOUNDED: Bounds = { minValue: null, maxValue: null, overflow: 'REJECT' }

/** A bound that a value crosses. */
export type Crossed = { side: 'minValue' | 'maxValue'; limit: number }

/** The bound that a value crosses; undefined: none. */
export function crossed(
  { minValue, maxValue }: Pick<Bounds, 'minValue' | 'maxValue'>,
  value: number,
): Crossed | undefined {
  if (maxValue !== null && value > maxValue) return { side: 'maxValue', limit: maxValue }
  return minValue !== null && value < minValue ? { side: 'minValue', limit: minValue } : undefined
}

/** The bounds after a change; an error if they exclude every value. */
export function changedBounds(present: Bounds = UNBOUNDED, change: Change<Bounds>): Bounds | NthError {
  const bounds = withChange(present, change, UNBOUNDED)
  const { minValue, maxValue } = bounds
  if (minValue === null || maxValue === null || minValue <= maxValue) return bounds
  const argument = change.minValue === undefined ? 'definition.maxValue' : 'definition.minValue'
  const message = `minValue ${minValue} would be above maxValue ${maxValue}. Nothing was changed.`
  return new NthError('BAD_USER_INPUT', message, { argument })
}

/** The error for a value outside new bounds; undefined: it is inside. */
export function misfit(bounds: Bounds, value: number): NthError | undefined {
  const beyond = crossed(bounds, value)
  if (!beyond) return undefined
  const { side, limit } = beyond
  const word = side === 'maxValue' ? 'above' : 'below'
  const message = `The current value ${value} is ${word} ${side} ${limit}. Reset the counter first, or set another bound. Nothing was changed.`
  return new NthError('LIMIT_REACHED', message, { argument: `definition.${side}`, limit, value })
}
