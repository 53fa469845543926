import { crossed } from '../counters/bounds.ts'
import type { Definition } from '../counters/definition.ts'
import type { Period } from '../time/calendar.ts'
import type { CounterEntry, CounterHistoryEntry, PeriodTotal } from './entries.ts'
import { type Options, OTHER_DEFINITION, type Outcome, type Result, refused } from './outcome.ts'

/** A counter as an import finds it, under lock. */
export interface PresentCounter {
  /** Whether it was ever changed or defined. */
  exists: boolean
  value: number
  definition: Definition
  /** The totals that the import may change, and those of periods that may still be running; by `totalKey`. */
  totals: ReadonlyMap<string, PeriodTotal>
}

/** What to write of a counter. */
export interface CounterMerge extends Result {
  value: number
  /** The new definition; undefined: unchanged. All totals are then written to the history. */
  definition: Definition | undefined
  /** Whether present totals, which were recorded in another time zone, are deleted. */
  isCleared: boolean
  /** The new totals, where they differ from the present ones. */
  totals: readonly PeriodTotal[]
}

export function totalKey({ period, start }: { period: Period; start: number }): string {
  return `${period} ${start}`
}

/** The state of a counter after an import: of the value and of each total the greater one. */
export function mergeCounter(
  present: PresentCounter,
  entry: CounterEntry,
  { overwrite }: Options,
): CounterMerge {
  const { exists } = present
  const differs = entry.definition !== undefined && !isSameDefinition(present.definition, entry.definition)
  const definition = exists && !(differs && overwrite) ? undefined : (entry.definition ?? present.definition)
  const valid = definition ?? present.definition
  const value = exists && !overwrite ? Math.max(present.value, entry.value) : entry.value
  const beyond = valid.bounds && crossed(valid.bounds, value)
  if (beyond) {
    const side = beyond.side === 'maxValue' ? 'above the maximum' : 'below the minimum'
    return nothing(present, refused(`its value ${value} is ${side} of ${beyond.limit}`))
  }
  const isCleared = exists && definition !== undefined && definition.timeZone !== present.definition.timeZone
  const fits = entry.definition === undefined || entry.definition.timeZone === valid.timeZone
  const changed = fits ? changedTotals(isCleared ? new Map() : present.totals, entry.history, overwrite) : []
  const isWritten = value !== present.value || changed.length > 0 || definition !== undefined
  const isLowered = exists && (value < present.value || differs)
  const note = differs && exists && !overwrite ? noteOn(fits) : undefined
  if (!exists) return { outcome: 'created', value, definition, isCleared, totals: changed }
  const unwritten: Outcome = entry.value < present.value ? 'kept' : 'unchanged'
  const outcome = !isWritten ? unwritten : isLowered && overwrite ? 'lowered' : 'raised'
  const moved = definition && !isCleared ? [...present.totals.values()] : []
  const written = new Map([...moved, ...changed].map((total) => [totalKey(total), total]))
  return { outcome, note, value, definition, isCleared, totals: [...written.values()] }
}

/** The same for more totals of a counter, which the line before has created. */
export function mergeHistory(
  present: PresentCounter,
  { history, timeZone }: CounterHistoryEntry,
  { overwrite }: Options,
): CounterMerge {
  if (!present.exists) return nothing(present, refused('it does not exist, so its history was not imported'))
  if (present.definition.timeZone !== timeZone) return nothing(present, refused('its time zone differs'))
  const totals = changedTotals(present.totals, history, overwrite)
  return { ...nothing(present, { outcome: totals.length > 0 ? 'raised' : 'unchanged' }), totals }
}

/** Whether two definitions are the same for callers: not since when periods are tracked. */
export function isSameDefinition(one: Definition, other: Definition): boolean {
  return textOf(one) === textOf(other)
}

function textOf({ bounds, slots, timeZone, periods }: Definition): string {
  const { minValue = null, maxValue = null, overflow = 'REJECT' } = bounds ?? {}
  const tracked = periods.map(({ period, keepDays }) => [period, keepDays])
  return JSON.stringify([minValue, maxValue, overflow, slots, timeZone, tracked])
}

function changedTotals(
  present: ReadonlyMap<string, PeriodTotal>,
  imported: readonly PeriodTotal[],
  overwrite: boolean,
): PeriodTotal[] {
  return imported.filter((total) => {
    const before = present.get(totalKey(total))?.value
    if (before === undefined) return true
    return overwrite ? total.value !== before : total.value > before
  })
}

function nothing({ value }: PresentCounter, result: Result): CounterMerge {
  return { ...result, value, definition: undefined, isCleared: false, totals: [] }
}

function noteOn(fits: boolean): string {
  return fits
    ? OTHER_DEFINITION
    : `${OTHER_DEFINITION}; its time zone differs, so its history was not imported`
}
