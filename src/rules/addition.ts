import { calendarOf, PERIODS, type Period } from './calendar.ts'
import {
  type CounterFault,
  type CounterResult,
  type Crossed,
  crossed,
  type Definition,
  type FirstCount,
  type Held,
  type HoldPart,
  NOTHING_HELD,
  type PeriodLimit,
  type PeriodValues,
} from './counter.ts'
import { NthError } from './errors.ts'

/** State of a counter's row while operations are applied to it in order. What it refers to never changes. */
export class RowState {
  value = 0
  definition: Definition
  /** Totals of the tracked periods; undefined: not read, as they are not needed. */
  periodTotals: PeriodValues | undefined
  /** The operations' subjects that have counted. No all-or-nothing call, which may be undone, has a subject. */
  subjects: Map<string, FirstCount> | undefined
  /** What is held, and the instant by which holds are judged; undefined: it was never held, or that is not needed. */
  held: JudgedHeld | undefined
  /** The parts of holds on it that operations are about, by token. */
  parts = new Map<string, HoldPart>()
  /** Number of operations that added to its value or set it. */
  counted = 0
  /** Sum of the additions to its periods. It may leave the safe range if the value was set in between. */
  added = 0n
  /** Revision before all operations; undefined: not requested. */
  revision: number | undefined
  /** How much the operations raise it. */
  raised = 0
  isDefined = false
  isDeleted = false
  /** Whether it was never written or defined, which only `raise` needs to know. */
  isNew = false
  /** Undefined: no subject is forgotten. */
  newSalt: string | undefined
  /** Why only some kinds of operations are possible; undefined: all are. */
  fault: CounterFault | undefined

  constructor(definition: Definition) {
    this.definition = definition
  }
}

/** `at`: the database's clock, or a later instant by which a hold has been judged before, in milliseconds since 1970. */
export type JudgedHeld = Held & { readonly at: number }

export function add(row: RowState, delta: number, at: Date): CounterResult | NthError {
  const { value: previous, definition, held = NOTHING_HELD } = row
  const value = previous + delta
  const beyond = crossed(definition, value, held)
  const exceeded = definition.maxIn.length > 0 ? exceededLimits(row, delta) : []
  if (definition.overflow === 'SATURATE' && (beyond || exceeded.length > 0)) {
    const rooms = exceeded.map(({ max, used }) => Math.max(0, max - used - held.up))
    const room = beyond
      ? beyond.limit - previous - (beyond.side === 'maxValue' ? held.up : -held.down)
      : delta
    const applied = Math.min(room, ...rooms)
    return addWithin(row, previous + applied, applied)
  }
  if (beyond || exceeded.length > 0) return refusedBy(row, delta, at, beyond, exceeded)
  // A sum outside the safe range is rounded, but never into it, unless the previous value was outside.
  if (Number.isSafeInteger(previous)) return addWithin(row, value, delta)
  return outOfRange(`${previous} plus ${delta}`, previous)
}

interface PeriodUse extends PeriodLimit {
  /** The total of the current period. */
  used: number
}

/** Why there is no room for an addition; undefined: there is. */
export function refusalOf(row: RowState, delta: number, at: Date): NthError | undefined {
  const beyond = crossed(row.definition, row.value + delta, row.held)
  const exceeded = exceededLimits(row, delta)
  return beyond || exceeded.length > 0 ? refusedBy(row, delta, at, beyond, exceeded) : undefined
}

/** The error of an addition beyond a bound, which never resets, or beyond limits. */
function refusedBy(
  row: RowState,
  delta: number,
  at: Date,
  beyond: Crossed | undefined,
  exceeded: readonly PeriodUse[],
): NthError {
  if (beyond) return limitReached(`${row.value} plus ${delta}`, beyond, row.value)
  return periodLimitReached(row, delta, exceeded, at)
}

/** The limits that an addition would exceed. */
function exceededLimits({ definition, periodTotals, held }: RowState, delta: number): PeriodUse[] {
  if (delta <= 0) return []
  return definition.maxIn
    .map((limit) => ({ ...limit, used: periodTotals?.[limit.period] ?? 0 }))
    .filter(({ max, used }) => used + (held?.up ?? 0) + delta > max)
}

/** Adds what no bound refuses, unless the value or the total of a current period would leave the safe range. */
export function addWithin(row: RowState, value: number, delta: number): CounterResult | NthError {
  if (!Number.isSafeInteger(value)) return outOfRange(`${row.value} plus ${delta}`, row.value)
  if (row.periodTotals) {
    const totals: { [P in Period]?: number } = { ...row.periodTotals }
    for (const period of PERIODS) {
      const total = totals[period]
      if (total === undefined) continue
      totals[period] = total + delta
      if (!Number.isSafeInteger(totals[period]))
        return outOfRange(`The total of this ${period}, ${total}, plus ${delta}`, row.value)
    }
    row.periodTotals = totals
    row.added += BigInt(delta)
  }
  return become(row, value, delta)
}

export function become(row: RowState, value: number, appliedDelta: number | null): CounterResult {
  const { value: previousValue, definition, periodTotals: valuesIn, held } = row
  row.value = value
  row.counted += 1
  // Adding 0 changes only the counter's time of update.
  if (appliedDelta !== 0) row.raised += 1
  return { value, previousValue, appliedDelta, definition, valuesIn, held, revision: revisionOf(row) }
}

/** The revision after an operation; undefined: not requested. */
export function revisionOf({ revision, raised }: Pick<RowState, 'revision' | 'raised'>): number | undefined {
  return revision === undefined ? undefined : revision + raised
}

export function outOfRange(what: string, value: number): NthError {
  const message = `${what} is outside the range of ${Number.MIN_SAFE_INTEGER} to ${Number.MAX_SAFE_INTEGER}. Nothing was changed.`
  return new NthError('OUT_OF_RANGE', message, { value })
}

/** Of several limits, the error is that of the period that ends last: before that, no other makes room. */
function periodLimitReached(
  { value, definition, held }: RowState,
  delta: number,
  exceeded: readonly PeriodUse[],
  at: Date,
): NthError {
  const { up } = held ?? NOTHING_HELD
  const calendar = calendarOf(definition.timeZone)
  const ends = exceeded.map((use) => ({ ...use, end: calendar.bucketAt(use.period, at.getTime()).end }))
  const [{ period, max, used, end }] = ends.toSorted((a, b) => b.end - a.end) as [(typeof ends)[0]]
  const resetsAt = new Date(end).toISOString()
  const message = `Limit reached: ${used} plus ${delta}${heldText(up)} is above the maximum of ${max} in each ${period}. This one ends at ${resetsAt}. Nothing was changed.`
  return new NthError('LIMIT_REACHED', message, {
    limit: max,
    value,
    period,
    used,
    resetsAt,
    ...(up > 0 && { held: up }),
  })
}

const heldText = (held: number) => (held > 0 ? ` with ${held} held` : '')

export function limitReached(what: string, { side, limit, held }: Crossed, value: number): NthError {
  const bound = side === 'maxValue' ? 'above the maximum' : 'below the minimum'
  const message = `Limit reached: ${what}${heldText(held)} is ${bound} of ${limit}. Nothing was changed.`
  return new NthError('LIMIT_REACHED', message, { limit, value, ...(held > 0 && { held }) })
}
