import type { Connection } from 'mysql2/promise'
import type { ReservationEntry } from '../../../core/transfer/entries.ts'
import { bytes } from '../../literals.ts'
import { select } from '../../select.ts'
import { type KeyRow, keyIn } from '../../sequences/record.ts'
import { type ReservationRow, reservationIn } from '../../sequences/reservations.ts'
import { PAGE, pagesOf } from './pages.ts'

type ExportedReservation = ReservationRow & KeyRow & { closed_at: Date | null }

/** Reservations, in the order of their tokens. */
export async function* exportReservations(connection: Connection): AsyncGenerator<ReservationEntry> {
  const read = (after: ExportedReservation | undefined) =>
    select<ExportedReservation>(
      connection,
      `select straight_join n.name as namespace, s.name as sequence, g.name as its_group, r.*
         from reservation r force index (primary)
         join sequence_group g on g.id = r.group_id
         join sequence s on s.id = g.sequence_id
         join namespace n on n.id = s.namespace_id
        where r.token > ${after ? bytes(after.token) : "x''"}
        order by r.token
        limit ${PAGE}`,
    )
  for await (const page of pagesOf(read, PAGE)) {
    for (const row of page) {
      const { periodKey: period, expiresAt, kind: _, ...own } = reservationIn(row)
      const times = { expiresAt: new Date(expiresAt), closedAt: row.closed_at }
      yield { type: 'reservation', ...keyIn(row), ...own, period, ...times }
    }
  }
}
