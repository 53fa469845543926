import { calendarOf, PERIODS, type Period, unknownZone } from './calendar.ts'
import { NthError } from './errors.ts'
import { type Change, joinNames, withChange } from './names.ts'

export interface Definition extends Bounds, Retention {
  /** How much may be added in a period: each tracked, at most once, finest first. */
  maxIn: readonly PeriodLimit[]
  /** Rows that its value is split across. 1: returned numbers are exact. */
  slots: number
  /** The period in which a subject counts once; null: once ever. */
  oncePer: Period | null
  /** Whether it was ever held. Earlier versions, which would sell what is held, refuse such a counter. */
  hasHolds: boolean
}

export interface PeriodLimit {
  period: Period
  /** Additions are refused that would make the total of the period higher, or stop there. */
  max: number
}

/** What a definition has besides its retention. */
type Limits = Bounds & Pick<Definition, 'maxIn' | 'slots' | 'oncePer' | 'hasHolds'>

/** The default definition, without retention. */
export const UNBOUNDED: Limits = {
  minValue: null,
  maxValue: null,
  overflow: 'REJECT',
  maxIn: [],
  slots: 1,
  oncePer: null,
  hasHolds: false,
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

export type DefinitionChange = Change<Limits> & RetentionChange

/** A change of retention. A counter's defaults are its namespace's retention. */
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
    .toSorted(finestFirst)
}

/** The order of periods, and of what belongs to them. */
export function finestFirst(a: { period: Period }, b: { period: Period }): number {
  return PERIODS.indexOf(a.period) - PERIODS.indexOf(b.period)
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
  held?: Held,
): Definition | NthError {
  const changed = withChange<Limits>(present, change, UNBOUNDED)
  const { minValue, maxValue, slots } = changed
  const hasHolds = present.hasHolds || changed.hasHolds
  const maxIn = changed.maxIn.toSorted(finestFirst)
  if (minValue !== null && maxValue !== null && minValue > maxValue) {
    const argument = change.minValue === undefined ? 'definition.maxValue' : 'definition.minValue'
    const message = `minValue ${minValue} would be above maxValue ${maxValue}. Nothing was changed.`
    return new NthError('BAD_USER_INPUT', message, { argument })
  }
  const bound = maxValue === null ? minValue !== null && 'minValue' : 'maxValue'
  const limited = bound || (maxIn.length > 0 ? 'maxIn' : hasHolds && 'slots')
  if (slots > 1 && limited) {
    const argument = `definition.${change.slots === undefined ? limited : 'slots'}`
    const message = `A counter with ${slots} slots cannot have bounds, limits or holds, as no slot holds the total value. Nothing was changed.`
    return new NthError('BAD_USER_INPUT', message, { argument })
  }
  const beyond = crossed(changed, value, held)
  if (beyond) {
    const { side, limit, held } = beyond
    const word = side === 'maxValue' ? 'above' : 'below'
    const isHeld = held === 0 ? '' : ` with ${held} held`
    const message = `The current value ${value}${isHeld} is ${word} ${side} ${limit}. Reset the counter first, or set another bound. Nothing was changed.`
    const details = { argument: `definition.${side}`, limit, value, ...(held > 0 && { held }) }
    return new NthError('LIMIT_REACHED', message, details)
  }
  const timeZone = change.timeZone ?? present.timeZone
  const periods = periodsOf(change.periods ?? present.periods).map((wanted) => {
    const before = present.periods.find(({ period }) => period === wanted.period)
    // Periods that were tracked before continue, also in a time zone that is unknown here.
    if (before && timeZone === present.timeZone) return { ...wanted, since: before.since }
    const { start } = calendarOf(timeZone).bucketAt(wanted.period, at)
    // In another time zone the current one may start earlier: then its row receives all additions since its start.
    const since = before ? before.since && Math.min(before.since, start) : start
    return { ...wanted, since }
  })
  const untracked = maxIn.find((limit) => !periods.some(({ period }) => period === limit.period))
  if (untracked) {
    const argument = change.maxIn == null ? 'definition.periods' : 'definition.maxIn'
    const message = `${untracked.period} has a limit in maxIn, so it must be one of the periods. Nothing was changed.`
    return new NthError('BAD_USER_INPUT', message, { argument })
  }
  return { ...changed, maxIn, hasHolds, timeZone, periods }
}

/** Allowed values. Null: unbounded. */
export interface Bounds {
  minValue: number | null
  maxValue: number | null
  /** Effect of an addition that would cross a bound: it is refused, or applied up to the bound. */
  overflow: 'REJECT' | 'SATURATE'
}

/** What open holds take of a counter, both from 0: the sum of the additions that are held, and that of the subtractions. */
export interface Held {
  readonly up: number
  readonly down: number
}

export const NOTHING_HELD: Held = { up: 0, down: 0 }

/** A bound that is crossed, and how much of what it leaves is held. */
export type Crossed = { side: 'minValue' | 'maxValue'; limit: number; held: number }

/** The bound that a value crosses, with what is held; undefined: none. */
export function crossed(
  { minValue, maxValue }: Pick<Bounds, 'minValue' | 'maxValue'>,
  value: number,
  { up, down }: Held = NOTHING_HELD,
): Crossed | undefined {
  if (maxValue !== null && value + up > maxValue) return { side: 'maxValue', limit: maxValue, held: up }
  return minValue !== null && value - down < minValue
    ? { side: 'minValue', limit: minValue, held: down }
    : undefined
}

export interface CounterKey {
  namespace: string
  name: string
}

export interface CounterState extends CounterKey {
  value: number
  /** Undefined: never written or defined; its namespace's defaults apply. */
  definition: Definition | undefined
  /** When it was first written or defined; null: never. */
  createdAt: Date | null
  /** When its value was last changed; null: never. */
  updatedAt: Date | null
  /** The additions that open holds take, and the subtractions, both from 0. */
  held: number
  heldDown: number
  /** Higher in the newer of two states. */
  revision: number
}

/** A key as one string. */
export function keyText({ namespace, name }: CounterKey): string {
  return joinNames(namespace, name)
}

/** A counter that was never written or defined. */
export function unwritten({ namespace, name }: CounterKey, revision: number): CounterState {
  return {
    namespace,
    name,
    value: 0,
    definition: undefined,
    createdAt: null,
    updatedAt: null,
    held: 0,
    heldDown: 0,
    revision,
  }
}

/** Bounds of a page in an ordered list. */
export interface Page<Position> {
  /** Maximum length. With `fromEnd`, counted and listed from the end. */
  limit: number
  fromEnd: boolean
  /** Only what comes after this one. */
  after?: Position | undefined
  /** Only what comes before this one. */
  before?: Position | undefined
}

/** Ordered by the UTF-8 bytes of the names. */
export interface PageByName extends Page<string> {
  prefix: string
  /** Only names that contain this text, in upper or lower case. Missing or empty: all. */
  contains?: string | undefined
}

/** How many names a page compares with `contains`: a search for a rare text takes no longer than others. */
export const MAX_SEARCHED = 10_000

/** A page of a list by name. */
export interface NamePage<Item> {
  items: Item[]
  /** The last name that was compared with `contains`, if there are more. */
  searchedTo: string | undefined
}

export type CounterOperation =
  | { kind: 'add'; delta: number }
  /** With a new salt, it forgets all subjects. */
  | { kind: 'set'; to: number; expected?: Expected | undefined; newSalt?: string | undefined }
  /** Sets the value, unless it is as high. `change`: the definition of a counter that was never written or defined. */
  | { kind: 'raise'; to: number; change?: DefinitionChange | undefined }
  /** Adds 1, unless the subject has counted. */
  | { kind: 'countOnce'; subject: string }
  /** Subtracts 1, or 0 where that is refused, if the subject has counted, which it may then do again. */
  | { kind: 'uncount'; subject: string }
  /** Changes the definition, never the value. */
  | { kind: 'define'; change: DefinitionChange }
  /** Deletes the row. Later operations count in a new one. */
  | { kind: 'delete' }
  | HoldOperation

/** What an operation does to the part of a hold on a counter. All of a call are on the same hold, and on different counters. */
export type HoldOperation = { readonly token: string } & (
  | { readonly kind: 'hold'; readonly delta: number; readonly ttlMs: number; readonly longestMs: number }
  /** Undefined: what is held. */
  | { readonly kind: 'confirm'; readonly delta: number | undefined }
  | { readonly kind: 'extend'; readonly ttlMs: number }
  | { readonly kind: 'release' }
)

/** What a counter must still have for its value to be set. */
export interface Expected {
  value?: number | null | undefined
  revision?: number | null | undefined
}

export interface CounterResult {
  value: number
  previousValue: number
  /** The amount added; null unless it is an addition. */
  appliedDelta: number | null
  /** Totals of the tracked current periods, including this operation; undefined: not requested. */
  valuesIn?: PeriodValues | undefined
  /** If the subject had counted before: when. Then this is what that call returned, with `appliedDelta` 0. */
  countedAt?: Date | undefined
  /** With `uncount`: the subject has not counted, so nothing was done. */
  isUncounted?: true | undefined
  /** Whether an earlier call of the same hold returned this: when. */
  repeatedAt?: Date | undefined
  /** The part of the hold on this counter, after an operation on it. */
  part?: HoldPart | undefined
  /** What is held of the counter afterwards; undefined: not read, as it is not needed. */
  held?: Held | undefined
  /** With `raise`: the counter was never written or defined before. */
  isNew?: true | undefined
  /** Definition of the row afterwards; undefined: it is deleted, or an earlier call changed it. */
  definition?: Definition | undefined
  /** Revision of the row afterwards; undefined: not requested, or an earlier call changed it. */
  revision?: number | undefined
}

export type PeriodValues = { readonly [P in Period]?: number }

/** The part of a hold on a counter. Times are in milliseconds since 1970, by the database's clock. */
export interface HoldPart {
  /** Negative: a subtraction. */
  readonly amount: number
  readonly expiresAt: number
  /** How far it can be extended. */
  readonly latest: number
  /** It has expired if it is RESERVED, and `expiresAt` has passed. */
  readonly state: 'RESERVED' | 'CONFIRMED' | 'RELEASED'
  /** What its confirmation was asked for, and returned. */
  readonly confirmed?: Confirmation | undefined
}

export interface Confirmation
  extends Pick<CounterResult, 'value' | 'previousValue' | 'appliedDelta' | 'valuesIn'> {
  readonly delta: number
  /** In milliseconds since 1970. */
  readonly at: number
}

/** What a subject's call returned that counted. */
export interface FirstCount {
  value: number
  at: Date
  valuesIn: PeriodValues
}

/** What is wrong with a stored counter, and which kinds of operations cure it or work all the same. */
export interface CounterFault {
  error: NthError
  allowed: readonly CounterOperation['kind'][]
}

/** The fault of a counter in a time zone that is unknown here. */
export function zoneFault(timeZone: string): CounterFault {
  return { error: unknownZone(timeZone), allowed: ['set', 'raise', 'define', 'delete', 'extend', 'release'] }
}

/** The fault of a counter whose value was deleted from the database by hand. */
export function lostValue(): CounterFault {
  const message =
    'The value of this counter is missing in the database. Reset or delete the counter. Nothing was changed.'
  return { error: new NthError('CONFLICT', message), allowed: ['set', 'delete'] }
}

/** What a repeated call of a subject returns. */
export function repeatedCount({ value, valuesIn, at: countedAt }: FirstCount): CounterResult {
  return { value, previousValue: value - 1, appliedDelta: 0, valuesIn, countedAt }
}
