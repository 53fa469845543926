import { isDescending, type SequenceDefinition } from '../core/sequences/definition.ts'
import type { ReservationState, StoredReservation } from '../core/sequences/state.ts'
import { bytes, instant, integer, list } from '../mysql/literals.ts'

/** States by their code in the database. */
const STATES: readonly ReservationState[] = ['RESERVED', 'CONFIRMED', 'RELEASED', 'EXPIRED']

const OPEN = codeOf('RESERVED')
const EXPIRED = codeOf('EXPIRED')

/** A sequence group in a period. */
type SequenceGroupPlace = { id: number; periodKey: number; definition: SequenceDefinition }

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

/** Reads the same without locks: the first of each kind. */
export function readFirstFree(place: SequenceGroupPlace): string {
  return readFree(place, 1, '')
    .map((statement) => `(${statement})`)
    .join('\nunion all\n')
}

/** Numbers in the order in which they are issued. */
export function inOrder(numbers: readonly number[], definition: SequenceDefinition): number[] {
  return numbers.toSorted((a, b) => (isDescending(definition) ? b - a : a - b))
}

/** Locks and reads reservations. */
export function readTokens(tokens: readonly string[]): string {
  return `select token, group_id, period_key, generation, value, formatted, state, is_free, expires_at
  from reservation force index (primary)
 where token in (${list(tokens, literal)})
 order by token
   for update`
}

/** Reads the current state of reservations whose sequences exist. */
export function readPresent(tokens: readonly string[]): string {
  return `select r.token, r.group_id, r.period_key, r.generation, r.value, r.formatted, r.is_free, r.expires_at,
       if(r.state = ${OPEN} and r.expires_at <= utc_timestamp(3), ${EXPIRED}, r.state) as state
  from reservation r
  join sequence_group g on g.id = r.group_id
  join sequence s on s.id = g.sequence_id
 where r.token in (${list(tokens, literal)})`
}

/** Marks free numbers as reissued: their previous holders have lost them. */
export function takeFree(
  { id, periodKey }: SequenceGroupPlace,
  generation: number,
  values: readonly number[],
): string {
  return `update reservation force index (reservation_held)
   set closed_at = utc_timestamp(3),
       is_free = false,
       state = if(state = ${OPEN}, ${EXPIRED}, state)
 where group_id = ${integer(id)} and period_key = ${integer(periodKey)} and generation = ${integer(generation)}
   and state in (${OPEN}, ${codeOf('RELEASED')}) and (is_free or state = ${OPEN})
   and value in (${list(values, integer)})`
}

/** Writes new reservations, which may already be closed again. */
export function insertReservations(groupId: number, made: readonly StoredReservation[]): string {
  const values = list(made, (one) => {
    const { token, periodKey, generation, value, formatted, state, isFree, expiresAt } = one
    const closedAt = state === 'RESERVED' ? 'null' : 'utc_timestamp(3)'
    const number = `${integer(periodKey)}, ${integer(generation)}, ${integer(value)}, ${bytes(formatted)}`
    return `(${literal(token)}, ${integer(groupId)}, ${number}, ${codeOf(state)}, ${isFree}, ${instant(expiresAt)}, ${closedAt})`
  })
  return `insert into reservation
  (token, group_id, period_key, generation, value, formatted, state, is_free, expires_at, closed_at)
values ${values}`
}

/** Writes the final state of a reservation. */
export function closeReservation({ token, state, isFree }: StoredReservation): string {
  return `update reservation
   set state = ${codeOf(state)},
       is_free = ${isFree},
       closed_at = utc_timestamp(3)
 where token = ${literal(token)}`
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

/** A reservation's token as a literal. */
export function literal(token: string): string {
  if (!/^[0-9a-f]{32}$/.test(token)) throw new RangeError(`${token} is not a token`)
  return `x'${token}'`
}

/** Its code in the database. */
export function codeOf(state: ReservationState): number {
  return STATES.indexOf(state)
}
