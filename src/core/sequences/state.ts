import type { SequenceGroupRow } from '../rows.ts'
import type { Block, Position } from './blocks.ts'
import type { SequenceDefinition } from './definition.ts'

/** An operation on a sequence group. */
export type SequenceOperation =
  | { kind: 'next'; count: number }
  /** Null: at `startValue`. */
  | { kind: 'restart'; nextValue: number | null }
  /** `token`: id of the new reservation. */
  | { kind: 'reserve'; token: string; ttlMs: number }
  | CloseOperation

/** Ends a reservation. */
export type CloseOperation = { kind: 'confirm' | 'release'; token: string }

/** Result of an operation on a sequence group. */
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

/** A sequence group as a flush finds it. */
export interface SequenceGroupFound extends Position {
  /** Whether a statement has already advanced the row for all operations. `last` is the number before that. */
  isAdvanced: boolean
  /** Its generation: how often it was restarted in the current period. */
  generation: number
  /** Time by the database's clock, in milliseconds since 1970. */
  now: number
  /**
   * Released or expired numbers of the current period and generation, within the bounds: the first ones to reissue, as
   * many as may be needed.
   */
  free: readonly number[]
  /** The reservations to confirm or release. */
  reservations: readonly StoredReservation[]
  /** Its revision before; undefined: not requested. */
  revision: number | undefined
}

/** The write of a sequence group. */
export interface SequenceGroupWrite extends Position {
  /** The definition that was applied. */
  definition: SequenceDefinition
  /** Whether it issued numbers or was restarted. */
  isMoved: boolean
  isIssued: boolean
  /** How much its revision rises. */
  raised: number
  generation: number
  taken: readonly Taken[]
  reserved: readonly StoredReservation[]
  closed: readonly StoredReservation[]
}

/** A free number that is reissued, and its generation. */
export interface Taken {
  value: number
  generation: number
}

/** State of a sequence group while operations are applied to it in order. */
export interface NumberState extends Position {
  definition: SequenceDefinition
  /** Name of the sequence group; may be empty. */
  group: string
  /** Key of the current period. */
  periodKey: number
  generation: number
  now: number
  free: number[]
  reservations: Map<string, StoredReservation>
  isMoved: boolean
  isIssued: boolean
  /** Revision before all operations; undefined: not requested. */
  revision: number | undefined
  /** How much the operations raise it. */
  raised: number
  taken: Taken[]
  reserved: Set<StoredReservation>
  closed: Set<StoredReservation>
}

/** State of a sequence group as found, before any operation. */
export function numberState(
  { row: { definition, group }, periodKey }: { row: SequenceGroupRow; periodKey: number },
  { last, next, generation, now, free, reservations, revision }: SequenceGroupFound,
): NumberState {
  return {
    definition,
    group,
    periodKey,
    last,
    next,
    generation,
    now,
    free: [...free],
    reservations: new Map(
      reservations.map((one) => {
        // Free numbers are read shortly after the clock. A reservation of one of them has expired in between.
        const isLost =
          one.periodKey === periodKey && one.generation === generation && free.includes(one.value)
        return [one.token, { ...one, state: one.state === 'RESERVED' && isLost ? 'EXPIRED' : one.state }]
      }),
    ),
    isMoved: false,
    isIssued: false,
    revision,
    raised: 0,
    taken: [],
    reserved: new Set(),
    closed: new Set(),
  }
}

/** The write of a sequence group; undefined: nothing changed. */
export function sequenceGroupWrite(state: NumberState): SequenceGroupWrite | undefined {
  const { definition, last, next, generation, isMoved, isIssued, raised, taken, reserved, closed } = state
  if (!isMoved && closed.size === 0) return undefined
  return {
    definition,
    last,
    next,
    generation,
    isMoved,
    isIssued,
    raised,
    taken,
    reserved: [...reserved],
    closed: [...closed].filter((one) => !reserved.has(one)),
  }
}
