import type { ReservationEntry } from '../../../../core/transfer/entries.ts'
import type { PresentReservation } from '../../../../core/transfer/mergeReservation.ts'
import { bytes, instant, integer, list, orNull } from '../../../literals.ts'
import { raisedRevision } from '../../../revisions.ts'
import { codeOf, literal } from '../../../sequences/reservations.ts'
import { type ImportContext, write } from '../context.ts'

type Written = Pick<PresentReservation, 'state' | 'isFree'>

export function insertReservation(
  context: ImportContext,
  groupId: number,
  entry: ReservationEntry,
  { state, isFree }: Written,
) {
  const { token, period, generation, value, formatted, expiresAt, closedAt } = entry
  const number = `${integer(period)}, ${integer(generation)}, ${integer(value)}, ${bytes(formatted)}`
  return write(
    context,
    `insert into reservation
  (token, group_id, period_key, generation, value, formatted, state, is_free, expires_at, closed_at)
values (${literal(token)}, ${integer(groupId)}, ${number}, ${codeOf(state)}, ${isFree}, ${instant(expiresAt)},
        ${orNull(closedAt, instant)})`,
  )
}

export function closeReservation(
  context: ImportContext,
  { token, closedAt }: ReservationEntry,
  { state, isFree }: Written,
) {
  return write(
    context,
    `update reservation
   set state = ${codeOf(state)},
       is_free = ${isFree},
       closed_at = ${orNull(closedAt, instant)}
 where token = ${literal(token)}`,
  )
}

/** Reservations whose free number was issued elsewhere. */
export function loseNumbers(context: ImportContext, tokens: readonly string[]): Promise<void> {
  return write(context, `update reservation set is_free = false where token in (${list(tokens, literal)})`)
}

export function raiseRevisions(context: ImportContext, ids: readonly number[]): Promise<void> {
  return write(
    context,
    `update sequence_group force index (primary)
   set ${raisedRevision('not is_used', 1)},
       is_used = true
 where id in (${list(ids, integer)})`,
  )
}
