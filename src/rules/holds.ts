import { add, addWithin, outOfRange, type RowState, refusalOf, revisionOf } from './addition.ts'
import { type CounterResult, type HoldOperation, type HoldPart, NOTHING_HELD } from './counter.ts'
import { type ErrorDetails, NthError, unavailable } from './errors.ts'
import type { ReservationState } from './sequence.ts'

/*
 * Holds take additions out of what bounds and limits leave, without counting them. `value` is what was counted, so
 * `value + held` never crosses a bound: an open hold can always be confirmed, for as much as it holds or less.
 *
 * The state of the part of a hold on a counter:
 *
 *   RESERVED   open until it expires; nobody writes its row then
 *   EXPIRED    RESERVED, but no longer held: it is confirmed if there is room
 *   CONFIRMED  it was counted, with the amount of its confirmation
 *   RELEASED   it is no longer held
 */

/** How long a hold can be extended, from when it was made, in milliseconds: a day. */
export const LONGEST_HOLD_MS = 86_400_000

/** The same for one that a page made. */
export const LONGEST_PAGE_HOLD_MS = 900_000

type OperationOf<Kind> = Extract<HoldOperation, { kind: Kind }>

/**
 * Holds an addition, or a subtraction, if there is room. It never saturates.
 *
 * @param heldAt instant by which all parts of the hold are judged, in milliseconds since 1970
 */
export function hold(
  row: RowState,
  { token, delta, ttlMs, longestMs }: OperationOf<'hold'>,
  at: Date,
  heldAt: number,
): CounterResult | NthError {
  // It was deleted since it was marked as held, and has a new row.
  if (!row.held) return unavailable('A counter was deleted in the meantime; nothing was held.')
  const refusal = refusalOf(row, delta, at)
  if (refusal) return refusal
  const { up, down } = addHeld(row, delta)
  if (!Number.isSafeInteger(row.value + up) || !Number.isSafeInteger(row.value - down))
    return outOfRange(`${row.value} plus what is held`, row.value)
  const latest = heldAt + longestMs
  return change(row, token, { amount: delta, expiresAt: heldAt + ttlMs, latest, state: 'RESERVED' })
}

/** Counts what is held, or another amount. A repeat returns the first result. */
export function confirm(
  row: RowState,
  { token, delta }: OperationOf<'confirm'>,
  at: Date,
): CounterResult | NthError {
  const part = row.parts.get(token)
  if (!part) return noSuchHold()
  const { amount, state, confirmed } = part
  const wanted = delta ?? amount
  if (confirmed?.delta === wanted) return { ...confirmed, repeatedAt: new Date(confirmed.at), part }
  if (state !== 'RESERVED') return closed(state)
  const isOpen = isHeld(row, part)
  if (isOpen) addHeld(row, -amount, amount)
  const isWithin = isOpen && Math.abs(wanted) <= Math.abs(amount)
  const result =
    wanted === 0
      ? unchanged(row)
      : isWithin
        ? addWithin(row, row.value + wanted, wanted)
        : add(row, wanted, at)
  if (result instanceof NthError) return isOpen ? result : late(row, result)
  if (!isOpen && wanted !== 0 && result.appliedDelta === 0) return late(row, refusalOf(row, wanted, at))
  const { value, previousValue, appliedDelta, valuesIn } = result
  const first = { delta: wanted, value, previousValue, appliedDelta, valuesIn, at: at.getTime() }
  const after: HoldPart = { ...part, state: 'CONFIRMED', confirmed: first }
  if (result.appliedDelta === 0) return { ...change(row, token, after), appliedDelta: 0 }
  row.parts.set(token, after)
  return { ...result, part: after }
}

/** Moves the expiry, as far as it may be. */
export function extend(
  row: RowState,
  { token, ttlMs }: OperationOf<'extend'>,
  heldAt: number,
): CounterResult | NthError {
  const part = row.parts.get(token)
  if (!part) return noSuchHold()
  if (part.state !== 'RESERVED') return closed(part.state)
  if (!isHeld(row, part)) return closed('EXPIRED')
  return change(row, token, { ...part, expiresAt: Math.min(heldAt + ttlMs, part.latest) })
}

/** Gives back what is held, also what has expired: then it can no longer be confirmed. A repeat changes nothing. */
export function release(row: RowState, { token }: OperationOf<'release'>): CounterResult | NthError {
  const part = row.parts.get(token)
  if (!part) return noSuchHold()
  if (part.state === 'CONFIRMED') return closed(part.state)
  if (part.state === 'RELEASED') return { ...unchanged(row), part }
  if (isHeld(row, part)) addHeld(row, -part.amount, part.amount)
  return change(row, token, { ...part, state: 'RELEASED' })
}

/** Whether a part is open by the instant of its counter. */
function isHeld({ held }: RowState, { expiresAt }: HoldPart): boolean {
  return held !== undefined && expiresAt > held.at
}

/** Changes what is held by an amount, which belongs to the side of another. */
function addHeld(row: RowState, amount: number, side = amount) {
  const { up, down, at } = row.held ?? { ...NOTHING_HELD, at: 0 }
  row.held = side > 0 ? { up: up + amount, down, at } : { up, down: down - amount, at }
  return row.held
}

/** Writes a part, and so the row of its counter: no other process may decide on it as it was. */
function change(row: RowState, token: string, part: HoldPart): CounterResult {
  row.parts.set(token, part)
  row.raised += 1
  return { ...unchanged(row), part }
}

function unchanged(row: RowState): CounterResult {
  const { value, definition, periodTotals: valuesIn, held } = row
  return {
    value,
    previousValue: value,
    appliedDelta: 0,
    definition,
    valuesIn,
    held,
    revision: revisionOf(row),
  }
}

export function noSuchHold(): NthError {
  return new NthError(
    'NOT_FOUND',
    'There is no such hold, or one of its counters was deleted. Nothing was changed.',
  )
}

/** The error of a hold that has expired, and finds too little room. */
function late(row: RowState, refusal: NthError | undefined): NthError {
  const { limit, used = row.value, held = 0 } = refusal?.details ?? {}
  const left = limit === undefined ? {} : { left: Math.max(0, Math.abs(limit - used) - held) }
  return closed('EXPIRED', { ...refusal?.details, ...left })
}

const WHY = {
  RESERVED: 'is open',
  CONFIRMED: 'was confirmed',
  RELEASED: 'was released',
  EXPIRED: 'has expired',
}

function closed(state: ReservationState, details: ErrorDetails = {}): NthError {
  const rest = details.left === undefined ? '' : `, and ${details.left} is left`
  return new NthError('RESERVATION_CLOSED', `This hold ${WHY[state]}${rest}. Nothing was changed.`, {
    ...details,
    state,
  })
}
