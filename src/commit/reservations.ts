import { hex, instant, integer, list, orNull } from '../mysql/sql.ts'
import type { ReservationState, StoredReservation } from '../rules/sequence.ts'
import { isDescending, type Position, type SequenceDefinition } from '../rules/sequenceDefinition.ts'

/** States by their code in the database. */
const STATES: readonly ReservationState[] = ['RESERVED', 'CONFIRMED', 'RELEASED', 'EXPIRED']

export const OPEN = codeOf('RESERVED')

/** A sequence group in a period. */
export type SequenceGroupPlace = { id: number; periodKey: number; definition: SequenceDefinition }

/**
 * Reads the released numbers of the current generation, and the expired ones by the database's clock: of each, those to
 * be reissued first. Locking reads and writes here require the lock on the sequence group's row.
 *
 * Expired numbers are searched for among all open ones, in the order of the numbers, and only if there are any: so a
 * large number of them takes no longer than one.
 */
export function readFree(
  { id, periodKey, definition }: SequenceGroupPlace,
  count: number,
  lock = 'for update',
): string[] {
  const { minValue, maxValue } = definition
  const place = `group_id = ${integer(id)} and period_key = ${integer(periodKey)}`
  // The generation is a subquery: with a join, the server would not use an index for the order.
  const freeIn = (index: string, condition: string) => `select group_id, value
  from reservation force index (${index})
 where ${place} and generation = (select generation from sequence_value where ${place} ${lock})
   and ${condition}
   and value between ${integer(minValue ?? Number.MIN_SAFE_INTEGER)} and ${integer(maxValue ?? Number.MAX_SAFE_INTEGER)}
 order by value ${isDescending(definition) ? 'desc' : 'asc'}
 limit ${integer(count)} ${lock}`
  const isExpired = `state = ${OPEN} and expires_at <= utc_timestamp(3)
   and (select min(o.expires_at)
          from reservation o force index (reservation_open)
         where o.group_id = ${integer(id)} and o.state = ${OPEN}) <= utc_timestamp(3)`
  return [freeIn('reservation_free', 'is_free = 1'), freeIn('reservation_held', isExpired)]
}

/** Locks and reads the furthest confirmed number of a period, in any generation. */
export function lockConfirmed({ id, periodKey, definition }: SequenceGroupPlace): string {
  return `select ${isDescending(definition) ? 'min' : 'max'}(value) as value
  from reservation force index (reservation_held)
 where group_id = ${integer(id)} and period_key = ${integer(periodKey)} and state = ${codeOf('CONFIRMED')}
   for update`
}

/** Locks a reservation of a period, in any generation. */
export function lockReserved({ id, periodKey }: SequenceGroupPlace): string {
  return `select token
  from reservation force index (reservation_held)
 where group_id = ${integer(id)} and period_key = ${integer(periodKey)}
 limit 1
   for update`
}

/** Numbers in the order in which they are issued. */
export function inOrder(numbers: readonly number[], definition: SequenceDefinition): number[] {
  return numbers.toSorted((a, b) => (isDescending(definition) ? b - a : a - b))
}

/** Whether the sequence group of a reservation, with alias r, was restarted in its period since. */
export const isAbandoned = (lock = '') => `r.generation < (select v.generation
          from sequence_value v force index (primary)
         where v.group_id = r.group_id and v.period_key = r.period_key ${lock})`

/** Locks and reads reservations. Those that a restart has abandoned have expired. */
export function lockReservations(tokens: readonly string[]): string {
  return `select token, group_id, period_key, generation, value, formatted, is_free, expires_at,
       if(state = ${OPEN} and ${isAbandoned('for update')}, ${codeOf('EXPIRED')}, state) as state
  from reservation r force index (primary)
 where ${isToken(tokens)}
 order by token
   for update`
}

/** The condition of reservations with tokens. */
export function isToken(tokens: readonly string[]): string {
  return `token in (${list(tokens, hex)})`
}

export type ReservationRow = Record<
  'group_id' | 'period_key' | 'generation' | 'value' | 'state' | 'is_free',
  number
> &
  Record<'token' | 'formatted', Buffer> & { expires_at: Date }

export function reservationIn(row: ReservationRow): StoredReservation {
  return {
    kind: 'reservation',
    token: row.token.toString('hex'),
    value: row.value,
    formatted: row.formatted.toString(),
    state: STATES[row.state] ?? 'EXPIRED',
    expiresAt: row.expires_at.getTime(),
    periodKey: row.period_key,
    generation: row.generation,
    isFree: row.is_free === 1,
  }
}

/** Its code in the database. */
export function codeOf(state: ReservationState): number {
  return STATES.indexOf(state)
}

/** What `sequence_value` has of a sequence group in a period. */
interface StoredPosition extends Position {
  groupId: number
  period: number
  generation: number
  createdAt: Date | null
  /** Null: unchanged. */
  updatedAt: Date | null
}

/** Stores positions, whose rows exist and are locked. */
export function storePositions(positions: readonly StoredPosition[]): string {
  const values = list(positions, ({ groupId, period, last, next, generation, createdAt, updatedAt }) => {
    const numbers = `${orNull(last, integer)}, ${orNull(next, integer)}, ${integer(generation)}`
    const times = `${orNull(createdAt, instant)}, ${orNull(updatedAt, instant)}`
    return `(${integer(groupId)}, ${integer(period)}, ${numbers}, ${times})`
  })
  return `insert into sequence_value
  (group_id, period_key, value, next_value, generation, created_at, updated_at)
values ${values}
on duplicate key update
       value = values(value),
       next_value = values(next_value),
       generation = values(generation),
       created_at = coalesce(created_at, values(created_at)),
       updated_at = coalesce(values(updated_at), updated_at)`
}
