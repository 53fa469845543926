import { NthError } from '../../rules/errors.ts'
import type { SequenceGroupRow } from '../../rules/rows.ts'
import type { Block, Position } from '../../rules/sequenceDefinition.ts'

export type SequenceOperation =
  | { kind: 'next'; count: number }
  /** Null: at `startValue`. */
  | { kind: 'restart'; nextValue: number | null }
  /** `token`: id of the new reservation. */
  | { kind: 'reserve'; token: string; ttlMs: number }
  | CloseOperation

export type CloseOperation = { kind: 'confirm' | 'release'; token: string }

export type SequenceResult = IssuedNumbers | RestartResult | Reservation

/** Issued numbers and their format. */
export interface IssuedNumbers extends Block {
  kind: 'numbers'
  /** Revision of the sequence group afterwards; undefined: not requested, or an earlier call issued them. */
  revision?: number | undefined
  /** The number that comes next; null: the sequence is exhausted. */
  nextValue: number | null
  format: string | null
  timeZone: string
}

export interface RestartResult {
  kind: 'restart'
  nextValue: number
  nextFormatted: string
  /** As in `IssuedNumbers`. */
  revision?: number | undefined
}

/** A number reserved until it is confirmed, released or expires. */
export interface Reservation {
  kind: 'reservation'
  token: string
  value: number
  formatted: string
  state: ReservationState
  /** In milliseconds since 1970. */
  expiresAt: number
}

export type ReservationState = 'RESERVED' | 'CONFIRMED' | 'RELEASED' | 'EXPIRED'

export interface StoredReservation extends Reservation {
  /** Period key of its number. */
  periodKey: number
  /** Its generation: how often its sequence group had been restarted in that period. */
  generation: number
  /** Whether its number was released and not reissued. It is reissued only in the same period and generation. */
  isFree: boolean
}

/** A sequence group as a flush reads it. */
export interface SequenceGroupReading extends Position {
  /** Whether a statement has already advanced the row for all operations. `last` is the number before that. */
  readonly isAdvanced: boolean
  /** Its generation: how often it was restarted in the current period. */
  generation: number
  /** Time by the database's clock, in milliseconds since 1970. */
  now: number
  /** Released or expired numbers of this period and generation, within the bounds: the first ones, as many as needed. */
  free: readonly number[]
  /** The reservations to confirm or release. */
  reservations: readonly StoredReservation[]
  /** Its revision before; undefined: not requested. */
  revision: number | undefined
}

/** State of a sequence group while operations are applied to it in order, and what to write afterwards. */
export type NumberState = ReturnType<typeof numberState>

/** State of a sequence group as read, before any operation. */
export function numberState(
  { row: { definition, group }, periodKey }: { row: SequenceGroupRow; periodKey: number },
  { last, next, generation, now, free, reservations, revision }: SequenceGroupReading,
) {
  const asRead = (one: StoredReservation): StoredReservation => {
    // Free numbers are read shortly after the clock. A reservation of one of them has expired in between.
    const isLost = one.periodKey === periodKey && one.generation === generation && free.includes(one.value)
    return { ...one, state: one.state === 'RESERVED' && isLost ? 'EXPIRED' : one.state }
  }
  /** The free numbers that are reissued, and their generations. */
  const taken: { value: number; generation: number }[] = []
  return {
    definition,
    group,
    /** Key of the current period. */
    periodKey,
    last,
    next,
    generation,
    now,
    free: [...free],
    reservations: new Map(reservations.map((one) => [one.token, asRead(one)])),
    /** Whether it issued numbers or was restarted. */
    isMoved: false,
    isIssued: false,
    revision,
    /** How much its revision rises. */
    raised: 0,
    taken,
    reserved: new Set<StoredReservation>(),
    /** Those that are not in `reserved`. */
    closed: new Set<StoredReservation>(),
  }
}

/** The position of a sequence group in a period in which it has issued nothing. */
export const EMPTY_POSITION: SequenceGroupReading = {
  isAdvanced: false,
  last: null,
  next: null,
  generation: 0,
  now: 0,
  free: [],
  reservations: [],
  revision: undefined,
}

export function noSuchReservation(): NthError {
  return new NthError('NOT_FOUND', 'There is no such reservation.')
}
