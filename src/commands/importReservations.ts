import { codeOf, literal, type ReservationRow, reservationIn } from '../commit/reservations.ts'
import { bytes, groupBy, instant, integer, list, orNull, raisedRevision, select } from '../mysql/sql.ts'
import type { ReservationEntry } from '../rules/entries.ts'
import { mergeReservation, type PresentReservation, type Result, refused } from '../rules/merge.ts'
import { sequenceGroupKeyText } from '../rules/sequence.ts'
import { type ImportContext, locking, write } from './importContext.ts'
import { type FoundGroup, lockGroups } from './importSequences.ts'

/** A reservation, and where its number belongs: to a group, a period and a generation. */
interface LocatedReservation extends PresentReservation {
  place: string
}

/** Merges reservations into present ones, under the lock of their groups: those come earlier in a file. */
export async function importReservations(
  context: ImportContext,
  entries: readonly ReservationEntry[],
): Promise<Result[]> {
  const { groups } = await lockGroups(context, entries)
  const tokens = list(entries, ({ token }) => literal(token))
  const present = new Map(
    (await lockReservations(context, 'primary', `token in (${tokens})`)).map((one) => [one.token, one]),
  )
  const located = entries.flatMap((entry) => {
    const group = groups.get(sequenceGroupKeyText(entry))
    return group ? [{ entry, id: group.id }] : []
  })
  const sameNumber =
    located.length > 0 ? await lockReservations(context, 'reservation_free', sameNumbers(located)) : []
  const byPlace = new Map<string, readonly LocatedReservation[]>(groupBy(sameNumber, ({ place }) => place))
  const raised = new Set<number>()
  const results: Result[] = []
  for (const entry of entries) {
    const group = groups.get(sequenceGroupKeyText(entry))
    if (!group) results.push({ outcome: 'created' })
    else if (!group.sequence.definition.gapless) results.push(refused('its sequence is not gapless'))
    else if (group.isNew) results.push(refused('its sequence group does not exist'))
    else results.push(await importOne(entry, group))
  }
  if (raised.size > 0)
    await write(
      context,
      `update sequence_group force index (primary)
   set ${raisedRevision('not is_used', 1)},
       is_used = true
 where id in (${list([...raised], integer)})`,
    )
  return results

  async function importOne(entry: ReservationEntry, { id }: FoundGroup): Promise<Result> {
    const place = placeOf(id, entry)
    const known = present.get(entry.token)
    if (known && known.place !== place) return refused('a reservation with its id has another number')
    const others = (byPlace.get(place) ?? []).filter(({ token }) => token !== entry.token)
    const { outcome, note, written, lost } = mergeReservation(known, others, entry)
    if (written) {
      raised.add(id)
      // Reservations whose free number was issued elsewhere.
      if (lost.length > 0)
        await write(context, `update reservation set is_free = false where token in (${list(lost, literal)})`)
      await write(context, known ? close(entry, written) : insert(id, entry, written))
      // Later entries of this batch find it.
      const left = others.map((other) => (lost.includes(other.token) ? { ...other, isFree: false } : other))
      byPlace.set(place, [...left, { token: entry.token, place, ...written }])
    }
    return { outcome, note }
  }
}

function placeOf(
  groupId: number,
  { period, generation, value }: Pick<ReservationEntry, 'period' | 'generation' | 'value'>,
): string {
  return [groupId, period, generation, value].join(' ')
}

/** Locks and reads reservations. */
async function lockReservations(
  context: ImportContext,
  index: 'primary' | 'reservation_free',
  condition: string,
): Promise<LocatedReservation[]> {
  const rows = await select<ReservationRow>(
    context.connection,
    `select token, group_id, period_key, generation, value, formatted, state, is_free, expires_at
       from reservation force index (${index})
      where ${condition}
      order by token ${locking(context)}`,
  )
  return rows.map((row) => {
    const { token, state, isFree, periodKey: period, generation, value } = reservationIn(row)
    return { token, state, isFree, place: placeOf(row.group_id, { period, generation, value }) }
  })
}

/** The condition of the reservations of the same numbers that entries have. */
function sameNumbers(located: readonly { entry: ReservationEntry; id: number }[]): string {
  const places = groupBy(located, ({ id, entry }) => [id, entry.period, entry.generation].join(' '))
  const conditions = [...places.values()].map((some) => {
    const [{ id, entry }] = some
    const values = [...new Set(some.map(({ entry: { value } }) => value))]
    return `(group_id = ${integer(id)} and period_key = ${integer(entry.period)}
          and generation = ${integer(entry.generation)} and is_free in (0, 1) and value in (${list(values, integer)}))`
  })
  return conditions.join(' or ')
}

type Written = Pick<PresentReservation, 'state' | 'isFree'>

function insert(groupId: number, entry: ReservationEntry, { state, isFree }: Written): string {
  const { token, period, generation, value, formatted, expiresAt, closedAt } = entry
  const number = `${integer(period)}, ${integer(generation)}, ${integer(value)}, ${bytes(formatted)}`
  return `insert into reservation
  (token, group_id, period_key, generation, value, formatted, state, is_free, expires_at, closed_at)
values (${literal(token)}, ${integer(groupId)}, ${number}, ${codeOf(state)}, ${isFree}, ${instant(expiresAt)},
        ${orNull(closedAt, instant)})`
}

function close({ token, closedAt }: ReservationEntry, { state, isFree }: Written): string {
  return `update reservation
   set state = ${codeOf(state)},
       is_free = ${isFree},
       closed_at = ${orNull(closedAt, instant)}
 where token = ${literal(token)}`
}
