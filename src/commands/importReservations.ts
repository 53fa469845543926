import { isToken, lockReservations, type ReservationRow, reservationIn } from '../commit/reservations.ts'
import { raiseRevisions, storeReservations } from '../commit/sequenceStatements.ts'
import { groupBy, instant, integer, list, orNull, select } from '../mysql/sql.ts'
import type { Connection } from '../mysql/transactions.ts'
import type { EntryOf } from '../rules/entries.ts'
import { mergeReservation, type PresentReservation, type Result, refused } from '../rules/merge.ts'
import type { ImportContext } from './importContext.ts'
import { type LockedGroup, lockGroups } from './importSequences.ts'

/** A reservation, and where its number belongs: to a group, a period and a generation. */
interface LocatedReservation extends PresentReservation {
  place: string
}

/** Merges reservations into present ones, under the lock of their groups: those come earlier in a file. */
export async function importReservations(
  context: ImportContext,
  entries: readonly EntryOf<'reservation'>[],
): Promise<Result[]> {
  const { connection, isDryRun } = context
  const groupOf = await lockGroups(context, entries)
  const tokens = entries.map(({ token }) => token)
  const sameTokens = await readLocked(connection, lockReservations('primary', isToken(tokens)))
  const sameNumbers = groupBy(entries, (entry) => {
    const { period, generation } = entry
    return `group_id = ${integer(groupOf(entry).id)} and period_key = ${integer(period)} and generation = ${integer(generation)}`
  })
  const conditions = [...sameNumbers].map(
    ([place, some]) =>
      `(${place} and is_free in (0, 1) and value in (${list(some, ({ value }) => integer(value))}))`,
  )
  const sameNumber = await readLocked(
    connection,
    lockReservations('reservation_free', conditions.join(' or ')),
  )
  const present = new Map([...sameTokens, ...sameNumber].map((one) => [one.token, one]))
  const raised = new Map<number, LockedGroup>()
  const results: Result[] = []
  for (const entry of entries) results.push(await importOne(entry))
  if (raised.size > 0)
    await connection.query(raiseRevisions([...raised.values()].map((row) => ({ row, raise: 1 }))))
  return results

  async function importOne(entry: EntryOf<'reservation'>): Promise<Result> {
    const group = groupOf(entry)
    const { id, isUsed, sequence } = group
    // In a dry run, the lines before have not created it.
    if (isDryRun && !isUsed) return { outcome: 'created' }
    if (!sequence.definition.gapless) return refused('its sequence is not gapless')
    if (!isUsed) return refused('its sequence group does not exist')
    const place = placeOf(id, entry)
    const known = present.get(entry.token)
    if (known && known.place !== place) return refused('a reservation with its id has another number')
    const others = [...present.values()].filter((other) => other.place === place && other !== known)
    const { written, lost = [], ...result } = mergeReservation(known, others, entry)
    if (written) {
      raised.set(id, group)
      // Reservations whose free number was issued elsewhere.
      if (lost.length > 0)
        await connection.query(`update reservation set is_free = false where ${isToken(lost)}`)
      const { period: periodKey, expiresAt, closedAt } = entry
      const times = { expiresAt: expiresAt.getTime(), closedAt: orNull(closedAt, instant) }
      const stored = { ...entry, kind: 'reservation' as const, periodKey, ...written, ...times }
      await connection.query(storeReservations(id, [stored]))
      // Later entries of this batch find what has changed.
      for (const other of others) if (lost.includes(other.token)) other.isFree = false
      present.set(entry.token, { token: entry.token, place, ...written })
    }
    return result
  }
}

type Numbered = Pick<EntryOf<'reservation'>, 'period' | 'generation' | 'value'>

function placeOf(groupId: number, { period, generation, value }: Numbered): string {
  return [groupId, period, generation, value].join(' ')
}

async function readLocked(connection: Connection, statement: string): Promise<LocatedReservation[]> {
  const rows = await select<ReservationRow>(connection, statement)
  return rows.map((row) => {
    const { token, state, isFree, periodKey: period, generation, value } = reservationIn(row)
    return { token, state, isFree, place: placeOf(row.group_id, { period, generation, value }) }
  })
}
