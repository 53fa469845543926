import type { Block, Position } from './numbers.ts'
import type { SequenceDefinition } from './sequenceDefinition.ts'

/** What one caller asks of one group. */
export type GroupOperation =
  | { kind: 'next'; count: number }
  /** Null: at the start. */
  | { kind: 'restart'; nextValue: number | null }
  /** `token`: what names the reservation. */
  | { kind: 'reserve'; token: string; ttlMs: number }
  | CloseOperation

/** Ends a reservation. */
export type CloseOperation = { kind: 'confirm' | 'release'; token: string }

/** What one operation did. */
export type SequenceResult = IssuedNumbers | RestartResult | Reservation

/** Numbers, and how they are written. */
export interface IssuedNumbers extends Block {
  kind: 'numbers'
  /** Of the group since then; undefined: it wasn't asked, or an earlier call took them. */
  revision?: number | undefined
  /** What would come after them; null: there is nothing left. */
  nextValue: number | null
  format: string | null
  timeZone: string
}

export interface RestartResult {
  kind: 'restart'
  nextValue: number
  nextFormatted: string
  /** Likewise. */
  revision?: number | undefined
}

/** A number that is held until it is confirmed, given back, or its time is over. */
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
  /** The period that its number is of. */
  periodKey: number
  /** How often its group had been told to begin elsewhere, in that period. */
  round: number
  /** Whether its number was given back and waits to be reissued, if that is still of the running round. */
  isFree: boolean
}

/** What a flush finds of a group. */
export interface GroupFound extends Position {
  /** Whether its last number has risen already by what is taken. */
  isRisen: boolean
  /** How often it was told to begin elsewhere in the running period. */
  round: number
  /** The time by the database's clock, in milliseconds. */
  now: number
  /**
   * Numbers of the running period and round that were given back or have expired, and are within the bounds: those to
   * be issued first, as many as may be needed.
   */
  free: readonly number[]
  /** Those that are asked for. */
  reservations: readonly StoredReservation[]
  /** The group's revision before; undefined: nobody asks. */
  revision: number | undefined
}

/** What is to be written of a group. */
export interface GroupWrite extends Position {
  /** Whether it has issued numbers, or was told to begin elsewhere. */
  isMoved: boolean
  isIssued: boolean
  /** By how much the group's revision rises. */
  raised: number
  round: number
  taken: readonly Taken[]
  reserved: readonly StoredReservation[]
  closed: readonly StoredReservation[]
}

/** A number that was free in some round, and is reissued. */
export interface Taken {
  value: number
  round: number
}

/** A group, while operations are issued one after another. */
export interface NumberState extends Position {
  definition: SequenceDefinition
  /** Empty: the sequence without groups. */
  group: string
  /** Of its running period. */
  periodKey: number
  round: number
  now: number
  free: number[]
  reservations: Map<string, StoredReservation>
  isMoved: boolean
  isIssued: boolean
  /** The group's revision before all operations; undefined: nobody asks. */
  revision: number | undefined
  /** By how much they raise it. */
  raised: number
  taken: Taken[]
  reserved: Set<StoredReservation>
  closed: Set<StoredReservation>
}

/** A group as it was found, before anything is issued. */
export function numberState(
  { definition, group, periodKey }: Pick<NumberState, 'definition' | 'group' | 'periodKey'>,
  { last, next, round, now, free, reservations, revision }: GroupFound,
): NumberState {
  return {
    definition,
    group,
    periodKey,
    last,
    next,
    round,
    now,
    free: [...free],
    reservations: new Map(
      reservations.map((one) => {
        // The free numbers were read a moment after the clock: who holds one of them has lost it by then.
        const isLost = one.periodKey === periodKey && one.round === round && free.includes(one.value)
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

/** What was changed of a group; undefined: nothing. */
export function groupWrite(state: NumberState): GroupWrite | undefined {
  const { last, next, round, isMoved, isIssued, raised, taken, reserved, closed } = state
  if (!isMoved && closed.size === 0) return undefined
  return {
    last,
    next,
    round,
    isMoved,
    isIssued,
    raised,
    taken,
    reserved: [...reserved],
    closed: [...closed].filter((one) => !reserved.has(one)),
  }
}
