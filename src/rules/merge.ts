import { isDeepStrictEqual } from 'node:util'
import type { Period } from './calendar.ts'
import { crossed, type Definition } from './counter.ts'
import type { EntryOf, GroupPeriod, StoredPeriodTotal } from './entries.ts'
import { NthError } from './errors.ts'
import type { ReservationState } from './sequence.ts'
import {
  changedSequenceDefinition,
  type History,
  isDescending,
  type Position,
  pastFormatsOf,
  type SequenceDefinition,
  type StoredDefinition,
  union,
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
  /** Whether nothing is kept of each batch: what an entry of an earlier batch creates is missing. */
  isDryRun: boolean
}

/** What was done with an entry. `note`: why not all of it was applied. `subjects`: with how many of them, if it has some. */
export interface Result {
  outcome: ImportOutcome
  note?: string | undefined
  subjects?: { [Outcome in ImportOutcome]?: number }
}

/** What an import does with an entry. `written`: what it writes; undefined: nothing. */
export interface Merge<Written> extends Result {
  written?: Written
}

export function refused(note: string): Result {
  return { outcome: 'refused', note }
}

export const OTHER_DEFINITION = 'has another definition, which was kept; --overwrite replaces it'

export const OTHER_SALT =
  'its subjects were hashed with another salt than those here, so they cannot be merged; delete it here first, or import only its number, from a CSV'

type Salted = { salt?: string | undefined }

/** The salt that what is present, without subjects, takes from an entry with some; undefined: it keeps its own. */
export function newSalt({ salt }: Salted, { subjectSalt }: { subjectSalt?: string | undefined }) {
  return subjectSalt === salt ? undefined : subjectSalt
}

/** A counter as an import finds it, under lock. */
export interface PresentCounter extends Salted {
  /** Whether it was ever changed or defined. */
  exists: boolean
  value: number
  definition: Definition
  /** The totals that the import may change, by `totalKey`. */
  totals: ReadonlyMap<string, StoredPeriodTotal>
}

/** What is written of a counter. */
export interface ImportedCounter {
  value: number
  /** The new definition; undefined: unchanged. */
  definition?: Definition | undefined
  salt?: ReturnType<typeof newSalt>
  /** Whether present totals, which were recorded in another time zone, are deleted. */
  isCleared: boolean
  /** The new totals. */
  totals: readonly StoredPeriodTotal[]
}

export function totalKey({ period, start }: { period: Period; start: number }): string {
  return `${period} ${start}`
}

/** The state of a counter after an import: of the value and of each total the greater one. */
export function mergeCounter(
  present: PresentCounter,
  entry: EntryOf<'counter'>,
  { overwrite }: Options,
): Merge<ImportedCounter> {
  const { exists } = present
  const differs =
    entry.definition !== undefined &&
    !isDeepStrictEqual(visible(present.definition), visible(entry.definition))
  const definition = exists && !(differs && overwrite) ? undefined : (entry.definition ?? present.definition)
  const valid = definition ?? present.definition
  const value = exists && !overwrite ? Math.max(present.value, entry.value) : entry.value
  const beyond = crossed(valid, value)
  if (beyond) {
    const side = beyond.side === 'maxValue' ? 'above the maximum' : 'below the minimum'
    return refused(`its value ${value} is ${side} of ${beyond.limit}`)
  }
  const isCleared = exists && definition !== undefined && definition.timeZone !== present.definition.timeZone
  const fits = entry.definition === undefined || entry.definition.timeZone === valid.timeZone
  // A new definition may have carried totals over.
  const before = definition ? new Map() : present.totals
  const totals = fits ? changedTotals(before, entry.history, overwrite) : []
  const salt = newSalt(present, entry)
  const written = { value, definition, salt, isCleared, totals }
  if (!exists) return { outcome: 'created', written }
  const otherZone = fits ? '' : '; its time zone differs, so its history was not imported'
  const note = differs && !overwrite ? OTHER_DEFINITION + otherZone : undefined
  if (value === present.value && totals.length === 0 && !definition && !salt)
    return { outcome: entry.value < present.value ? 'kept' : 'unchanged', note }
  const isLowered = overwrite && (value < present.value || differs)
  return { outcome: isLowered ? 'lowered' : 'raised', note, written }
}

/** The same for more totals of a counter, which the line before has created. */
export function mergeHistory(
  { exists, value, definition, totals: present }: PresentCounter,
  { history, timeZone }: EntryOf<'counterHistory'>,
  { overwrite, isDryRun }: Options,
): Merge<ImportedCounter> {
  // The line before would have created it.
  if (!exists && isDryRun) return { outcome: 'unchanged' }
  if (!exists) return refused('it does not exist, so its history was not imported')
  if (definition.timeZone !== timeZone) return refused('its time zone differs')
  const totals = changedTotals(present, history, overwrite)
  if (totals.length === 0) return { outcome: 'unchanged' }
  return { outcome: 'raised', written: { value, isCleared: false, totals } }
}

/** What callers know of a definition: not since when periods are tracked. */
function visible({ periods, ...rest }: Definition): object {
  return { ...rest, periods: periods.map(({ period, keepDays }) => ({ period, keepDays })) }
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

/** What is written of a sequence. */
export type ImportedSequence =
  | (StoredDefinition & { salt: ReturnType<typeof newSalt> })
  /** Its definition is unchanged. */
  | (Pick<StoredDefinition, 'pastFormats'> & { definition?: undefined })

/**
 * A sequence after an import. The formats of the file become past formats, also where its definition is kept: so that no
 * later format repeats the texts that were issued elsewhere.
 *
 * @param present its definition and use; `exists`: whether it was ever used or defined
 */
export function mergeSequence(
  present: History & Salted & { exists: boolean },
  entry: EntryOf<'sequence'>,
  { overwrite }: Options,
): Merge<ImportedSequence> {
  const { exists } = present
  const differs = !isDeepStrictEqual(present.definition, entry.definition)
  const isKept = exists && !(differs && overwrite)
  const note = isKept && differs ? OTHER_DEFINITION : undefined
  const salt = newSalt(present, entry)
  const groups = { isNamed: true, isUnnamed: true }
  const imported = union(entry.formatHistory, entry.pastFormats ?? [])
  const past =
    isKept && differs
      ? union(imported, pastFormatsOf({ ...entry.definition, isSigned: true, groups }))
      : imported
  if (isKept && salt === undefined) {
    const pastFormats = union(present.pastFormats, past)
    if (pastFormats.length === present.pastFormats.length) return { outcome: 'unchanged', note }
    return { outcome: 'raised', note, written: { pastFormats } }
  }
  // What the sequence was elsewhere, it may be here.
  const before = exists ? present : { ...present, definition: entry.definition }
  const changed = changedSequenceDefinition(before, isKept ? {} : entry.definition)
  if (changed instanceof NthError) return refused(changed.message)
  const pastFormats = union(changed.pastFormats, past)
  const outcome = isKept ? 'raised' : exists ? 'lowered' : 'created'
  const hasMigratedRepeats = changed.hasMigratedRepeats || entry.hasMigratedRepeats === true
  return { outcome, note, written: { ...changed, hasMigratedRepeats, salt, pastFormats } }
}

/** Position of a sequence group in a period, as an import finds it under lock. */
export interface PresentPosition extends Position {
  generation: number
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
): Merge<PresentPosition> {
  const imported = { last, next, generation }
  if (!present || isEmpty(present)) {
    return isEmpty(imported) ? { outcome: 'unchanged' } : { outcome: 'created', written: imported }
  }
  const [before, after] = [upcoming(definition, present), upcoming(definition, imported)]
  const isSame = after === before
  if (isSame && generation === present.generation) return { outcome: 'unchanged' }
  if (definition.gapless && generation !== present.generation)
    return refused('it was restarted, and a gapless sequence continues its own numbers')
  const written = { ...imported, generation: Math.max(generation, present.generation) }
  const isFurther =
    before === null || (after !== null && (isDescending(definition) ? after < before : after > before))
  if (isFurther) return { outcome: 'raised', written }
  if (isSame) return { outcome: 'unchanged' }
  if (!overwrite) return { outcome: 'kept' }
  if (definition.gapless) return refused('numbers of a gapless sequence are never lowered')
  return { outcome: 'lowered', written }
}

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

interface ReservationMerge extends Merge<Pick<PresentReservation, 'state' | 'isFree'>> {
  /** The tokens of others that lose the same number, as it is taken. */
  lost?: readonly string[]
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
  { state, isFree }: EntryOf<'reservation'>,
): ReservationMerge {
  const active = others.filter(isActive)
  const isHeld = state === 'RESERVED' || state === 'CONFIRMED'
  if (present && (present.state !== 'RESERVED' || state === 'RESERVED')) {
    const isLost = state === 'CONFIRMED' && present.state !== 'CONFIRMED'
    return isLost
      ? refused('it is confirmed in the file, and was released or has expired since')
      : { outcome: 'unchanged' }
  }
  if (isHeld && active.some((other) => !other.isFree))
    return refused('its number is taken by another reservation')
  return {
    outcome: present ? 'raised' : 'created',
    written: { state, isFree: isFree && active.length === 0 },
    lost: isHeld ? active.map(({ token }) => token) : [],
  }
}

function isActive({ state, isFree }: PresentReservation): boolean {
  return isFree || state === 'RESERVED' || state === 'CONFIRMED'
}
