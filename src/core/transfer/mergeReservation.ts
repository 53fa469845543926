import type { ReservationState } from '../sequences/state.ts'
import type { ReservationEntry } from './entries.ts'
import { type Result, refused } from './outcome.ts'

/** A reservation as an import finds it, under the lock of its sequence group. */
export interface PresentReservation {
  token: string
  state: ReservationState
  isFree: boolean
}

/** What to write of a reservation. */
export interface ReservationMerge extends Result {
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
