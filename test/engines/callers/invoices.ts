import { type Caller, noteUnexpected } from '../caller.ts'
import { NAMESPACE } from './namespace.ts'

interface Reservation {
  id: string
  value: number
  state: string
  expiresAt: string
}

const FIELDS = '{ id value state expiresAt }'
const RESERVE = `mutation($group: String!) {
  reservation: reserveInSequence(name: "invoices", group: $group, ttlSeconds: 5, namespace: "${NAMESPACE}") ${FIELDS}
}`
const CONFIRM = `mutation($id: ID!) { reservation: confirmReservation(id: $id) ${FIELDS} }`
const RELEASE = `mutation($id: ID!) { reservation: releaseReservation(id: $id) ${FIELDS} }`
const GROUPS = 4

/** Numbers that were confirmed, by group. */
export type Confirmed = Map<string, number[]>

/** Reserves a number of a gapless sequence, and confirms it, releases it or leaves it to expire. */
export async function numberInvoice(caller: Caller, confirmed: Confirmed): Promise<void> {
  const { random, journal, server, other } = caller
  const group = `shop ${random.below(GROUPS)}`
  const outcome = await caller.call<{ reservation: Reservation }>(RESERVE, { group })
  if (outcome.kind !== 'answered') return noteUnexpected(caller, 'reserveInSequence', outcome)
  const { id, value, expiresAt } = outcome.data.reservation
  const draw = random.fraction()
  if (draw > 0.8) return
  const query = draw < 0.6 ? CONFIRM : RELEASE
  const closing = random.below(2) === 0 ? server : other
  const closed = await caller.insist<{ reservation: Reservation }>(query, { id }, closing)
  if (closed?.kind === 'refused' && closed.code === 'RESERVATION_CLOSED') {
    // The same clock: all is on one machine.
    if (Date.now() < Date.parse(expiresAt))
      journal.wrong.push(`Invoice ${value} of ${group} closed before it expired`)
    return
  }
  if (closed?.kind !== 'answered') return noteUnexpected(caller, 'closing a reservation', closed)
  const { reservation } = closed.data
  if (reservation.value !== value)
    journal.wrong.push(`Invoice ${value} of ${group} became ${reservation.value}`)
  if (query === RELEASE) return
  const numbers = confirmed.get(group) ?? []
  numbers.push(value)
  confirmed.set(group, numbers)
}
