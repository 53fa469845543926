import type { Period } from './calendar.ts'
import { crossed, type Definition } from './counter.ts'
import type {
  CounterEntry,
  CounterHistoryEntry,
  GroupPeriod,
  ReservationEntry,
  SequenceEntry,
  StoredPeriodTotal,
} from './entries.ts'
import { NthError } from './errors.ts'
import type { ReservationState } from './sequence.ts'
import {
  changedSequenceDefinition,
  formatInUse,
  type History,
  isDescending,
  type PastFormat,
  type Position,
  type SequenceDefinition,
} from './sequenceDefinition.ts'

/**
 * What an import does with an entry. Present numbers are only raised, or advanced in the direction of a sequence.
 *
 *   created    it did not exist
 *   raised     some of it was lower than in the file, or missing
 *   lowered    some of it was changed otherwise, as the operator allowed
 *   unchanged  all of it was present
 *   kept       a present number is further than that of the file, and stays
 *   refused    nothing of it was applied, for a reason
 */
export const OUTCOMES = ['created', 'raised', 'lowered', 'unchanged', 'kept', 'refused'] as const

type ImportOutcome = (typeof OUTCOMES)[number]

export interface Options {
  /** Whether definitions and numbers of the file replace present ones that differ. */
  overwrite: boolean
}

/** What was done with an entry. `note`: why not all of it was applied. */
export interface Result {
  outcome: ImportOutcome
  note?: string | undefined
}

export function refused(note: string): Result & { outcome: 'refused' } {
  return { outcome: 'refused', note }
}

export const OTHER_DEFINITION = 'has another definition, which was kept; --overwrite replaces it'

/** A counter as an import finds it, under lock. */
export interface PresentCounter {
  /** Whether it was ever changed or defined. */
  exists: boolean
  value: number
  definition: Definition
  /** The totals that the import may change, by `totalKey`. */
  totals: ReadonlyMap<string, StoredPeriodTotal>
  /** The totals of periods that may still be running: some of them is not in the history. */
  running: readonly StoredPeriodTotal[]
}

/** What to write of a counter. */
export interface CounterMerge extends Result {
  value: number
  /** The new definition; undefined: unchanged. */
  definition: Definition | undefined
  /** Whether present totals, which were recorded in another time zone, are deleted. */
  isCleared: boolean
  /** The new totals of the history: if there are any, those of running periods are among them. */
  totals: readonly StoredPeriodTotal[]
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
  const differs =
    entry.definition !== undefined && definitionText(present.definition) !== definitionText(entry.definition)
  const definition = exists && !(differs && overwrite) ? undefined : (entry.definition ?? present.definition)
  const valid = definition ?? present.definition
  const value = exists && !overwrite ? Math.max(present.value, entry.value) : entry.value
  const beyond = crossed(valid, value)
  if (beyond) {
    const side = beyond.side === 'maxValue' ? 'above the maximum' : 'below the minimum'
    return nothing(present, refused(`its value ${value} is ${side} of ${beyond.limit}`))
  }
  const isCleared = exists && definition !== undefined && definition.timeZone !== present.definition.timeZone
  const fits = entry.definition === undefined || entry.definition.timeZone === valid.timeZone
  const changed = fits ? changedTotals(isCleared ? new Map() : present.totals, entry.history, overwrite) : []
  const isWritten = value !== present.value || changed.length > 0 || definition !== undefined
  const isLowered = exists && (value < present.value || differs)
  const otherZone = fits ? '' : '; its time zone differs, so its history was not imported'
  const note = differs && exists && !overwrite ? OTHER_DEFINITION + otherZone : undefined
  if (!exists) return { outcome: 'created', value, definition, isCleared, totals: changed }
  const unwritten: ImportOutcome = entry.value < present.value ? 'kept' : 'unchanged'
  const outcome = !isWritten ? unwritten : isLowered && overwrite ? 'lowered' : 'raised'
  const totals = isCleared || !(definition || changed.length > 0) ? changed : withRunning(present, changed)
  return { outcome, note, value, definition, isCleared, totals }
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
  if (totals.length === 0) return nothing(present, { outcome: 'unchanged' })
  return { ...nothing(present, { outcome: 'raised' }), totals: withRunning(present, totals) }
}

/** What callers know of a definition: not since when periods are tracked. */
function definitionText({ minValue, maxValue, overflow, slots, timeZone, periods }: Definition): string {
  const tracked = periods.map(({ period, keepDays }) => [period, keepDays])
  return JSON.stringify([minValue, maxValue, overflow, slots, timeZone, tracked])
}

function changedTotals(
  present: ReadonlyMap<string, StoredPeriodTotal>,
  imported: readonly StoredPeriodTotal[],
  overwrite: boolean,
): StoredPeriodTotal[] {
  return imported.filter((total) => {
    const before = present.get(totalKey(total))?.value
    if (before === undefined) return true
    return overwrite ? total.value !== before : total.value > before
  })
}

function withRunning(
  { running }: PresentCounter,
  changed: readonly StoredPeriodTotal[],
): StoredPeriodTotal[] {
  const totals = new Map([...running, ...changed].map((total) => [totalKey(total), total]))
  return [...totals.values()]
}

function nothing({ value }: PresentCounter, result: Result): CounterMerge {
  return { ...result, value, definition: undefined, isCleared: false, totals: [] }
}

/** What to write of a sequence. */
export interface SequenceMerge extends Result {
  /** The new definition; undefined: unchanged. */
  definition: SequenceDefinition | undefined
  /** The new format history; undefined: unchanged. */
  formatHistory: readonly PastFormat[] | undefined
}

/**
 * A sequence after an import. The formats of the file become part of its format history, also where its definition is
 * kept: so that no later format repeats the texts that were issued elsewhere.
 *
 * @param present its definition and use; `exists`: whether it was ever used or defined
 */
export function mergeSequence(
  present: History & { exists: boolean },
  entry: SequenceEntry,
  { overwrite }: Options,
): SequenceMerge {
  const { exists } = present
  const differs = sortedText(present.definition) !== sortedText(entry.definition)
  const used = { isNamed: true, isUnnamed: true }
  const past =
    exists && differs ? [...entry.formatHistory, formatInUse(entry.definition, used)] : entry.formatHistory
  if (exists && !(differs && overwrite)) {
    const formatHistory = union(present.formatHistory, past)
    const isChanged = formatHistory.length > present.formatHistory.length
    return {
      outcome: isChanged ? 'raised' : 'unchanged',
      note: differs ? OTHER_DEFINITION : undefined,
      definition: undefined,
      formatHistory: isChanged ? formatHistory : undefined,
    }
  }
  const changed = changedSequenceDefinition(present, entry.definition)
  if (changed instanceof NthError)
    return { ...refused(changed.message), definition: undefined, formatHistory: undefined }
  return {
    outcome: exists ? 'lowered' : 'created',
    definition: changed.definition,
    formatHistory: union(changed.formatHistory, entry.formatHistory),
  }
}

function union(present: readonly PastFormat[], imported: readonly PastFormat[]): readonly PastFormat[] {
  const known = new Set(present.map(formatText))
  return [...present, ...imported.filter((past) => !known.has(formatText(past)))]
}

function formatText({ groups, ...rest }: PastFormat): string {
  return sortedText({ ...rest, ...groups })
}

/** The order of the parts does not matter. */
function sortedText(parts: object): string {
  return JSON.stringify(Object.entries(parts).toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

/** Position of a sequence group in a period, as an import finds it under lock. */
export interface PresentPosition extends Position {
  generation: number
}

/** What to write of a sequence group in a period; undefined: nothing. */
export interface PositionMerge extends Result {
  position: PresentPosition | undefined
}

/**
 * The position of a sequence group after an import: the one whose next number is further in the direction of the
 * sequence.
 *
 * A group that was restarted since is in another generation. The numbers of a gapless one then don't continue those of
 * the file: taking its position would leave gaps, or issue numbers twice.
 *
 * @param present undefined: it has issued no number in this period
 */
export function mergePosition(
  definition: SequenceDefinition,
  present: PresentPosition | undefined,
  { lastValue: last, nextValue: next, generation }: GroupPeriod,
  { overwrite }: Options,
): PositionMerge {
  const imported = { last, next, generation }
  if (!present || isEmpty(present)) {
    return isEmpty(imported) ? UNCHANGED : { outcome: 'created', position: imported }
  }
  const [before, after] = [upcoming(definition, present), upcoming(definition, imported)]
  if (after === before && generation === present.generation) return UNCHANGED
  const isFurther =
    before === null || (after !== null && (isDescending(definition) ? after < before : after > before))
  if (definition.gapless && generation !== present.generation)
    return stays(refused('it was restarted, and a gapless sequence continues its own numbers'))
  const position = { ...imported, generation: Math.max(generation, present.generation) }
  if (isFurther) return { outcome: 'raised', position }
  if (after === before) return UNCHANGED
  if (!overwrite) return stays({ outcome: 'kept' })
  if (definition.gapless) return stays(refused('numbers of a gapless sequence are never lowered'))
  return { outcome: 'lowered', position }
}

function stays(result: Result): PositionMerge {
  return { ...result, position: undefined }
}

const UNCHANGED = stays({ outcome: 'unchanged' })

function isEmpty({ last, next }: Position): boolean {
  return last === null && next === null
}

/** The next number, without regard to bounds; null: none was issued. */
function upcoming({ step }: SequenceDefinition, { last, next }: Position): number | null {
  return next ?? (last === null ? null : last + step)
}

/** A reservation as an import finds it, under the lock of its sequence group. */
export interface PresentReservation {
  token: string
  state: ReservationState
  isFree: boolean
}

/** What to write of a reservation. */
interface ReservationMerge extends Result {
  /** Its new state; undefined: unchanged. */
  written: { state: ReservationState; isFree: boolean } | undefined
  /** The tokens of others that lose the same number, as it is taken. */
  lost: readonly string[]
}

/**
 * A reservation after an import. The rule that always holds: of one number in one generation, at most one reservation
 * is active, that is open, confirmed, or free to be reissued.
 *
 * @param present the same reservation, if it is known
 * @param others those of the same number and generation
 */
export function mergeReservation(
  present: PresentReservation | undefined,
  others: readonly PresentReservation[],
  { state, isFree }: ReservationEntry,
): ReservationMerge {
  const active = others.filter(isActive)
  const isHeld = state === 'RESERVED' || state === 'CONFIRMED'
  if (present && (present.state !== 'RESERVED' || state === 'RESERVED')) {
    const isLost = state === 'CONFIRMED' && present.state !== 'CONFIRMED'
    return isLost
      ? { ...refused('it is confirmed in the file, and was released or has expired since'), ...NOTHING }
      : { outcome: 'unchanged', ...NOTHING }
  }
  if (isHeld && active.some((other) => !other.isFree))
    return { ...refused('its number is taken by another reservation'), ...NOTHING }
  return {
    outcome: present ? 'raised' : 'created',
    written: { state, isFree: isFree && active.length === 0 },
    lost: isHeld ? active.map(({ token }) => token) : [],
  }
}

const NOTHING = { written: undefined, lost: [] }

function isActive({ state, isFree }: PresentReservation): boolean {
  return isFree || state === 'RESERVED' || state === 'CONFIRMED'
}
