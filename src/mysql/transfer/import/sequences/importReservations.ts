import { keyText } from '../../../../core/counters/state.ts'
import { sequenceGroupKeyText } from '../../../../core/sequences/store.ts'
import type { ReservationEntry } from '../../../../core/transfer/entries.ts'
import { mergeReservation, type PresentReservation } from '../../../../core/transfer/mergeReservation.ts'
import { type Result, refused } from '../../../../core/transfer/outcome.ts'
import { groupBy } from '../../../groupBy.ts'
import { integer, list } from '../../../literals.ts'
import { select } from '../../../select.ts'
import { type ReservationRow, readTokens, reservationIn } from '../../../sequences/reservations.ts'
import { type ImportContext, locking } from '../context.ts'
import { type FoundGroup, findGroups } from './groupRows.ts'
import { lockSequenceRows } from './sequenceRows.ts'
import { closeReservation, insertReservation, loseNumbers, raiseRevisions } from './writeReservations.ts'

/** A reservation, and the group that it belongs to. */
interface Located extends PresentReservation {
  place: string
}

/** Merges reservations into present ones, under the lock of their groups: those come earlier in a file. */
export async function importReservations(
  context: ImportContext,
  entries: readonly ReservationEntry[],
): Promise<Result[]> {
  const sequences = await lockSequenceRows(context, entries)
  const keys = new Map(entries.map((entry) => [sequenceGroupKeyText(entry), entry]))
  const groups = await findGroups(context, [...keys.values()], sequences)
  const present = await readPresent(context, entries)
  const others = await readOthers(context, entries, groups)
  const raised = new Set<number>()
  const results: Result[] = []
  for (const entry of entries) {
    const sequence = sequences.get(keyText({ namespace: entry.namespace, name: entry.sequence }))
    const group = groups.get(sequenceGroupKeyText(entry))
    if (!sequence || !group) results.push({ outcome: 'created' })
    else if (!sequence.definition.gapless) results.push(refused('its sequence is not gapless'))
    else if (group.isNew) results.push(refused('its sequence group does not exist'))
    else results.push(await importOne(entry, group))
  }
  if (raised.size > 0) await raiseRevisions(context, [...raised])
  return results

  async function importOne(entry: ReservationEntry, group: FoundGroup): Promise<Result> {
    const place = placeOf(group.id, entry)
    const own = present.get(entry.token)
    if (own && own.place !== place) return refused('a reservation with its id has another number')
    const sameNumber = others.get(place) ?? []
    const known = sameNumber.filter(({ token }) => token !== entry.token)
    const { outcome, note, written, lost } = mergeReservation(own, known, entry)
    if (written) {
      raised.add(group.id)
      if (lost.length > 0) await loseNumbers(context, lost)
      await (own
        ? closeReservation(context, entry, written)
        : insertReservation(context, group.id, entry, written))
      // Later entries of this batch find it.
      const left = known.map((other) => (lost.includes(other.token) ? { ...other, isFree: false } : other))
      others.set(place, [...left, { token: entry.token, place, ...written }])
    }
    return { outcome, note }
  }
}

function placeOf(
  groupId: number,
  { period, generation, value }: Pick<ReservationEntry, 'period' | 'generation' | 'value'>,
) {
  return [groupId, period, generation, value].join(' ')
}

async function readPresent(context: ImportContext, entries: readonly ReservationEntry[]) {
  const statement = readTokens(entries.map(({ token }) => token)).replace(
    'select token',
    'select token, group_id',
  )
  const rows = await select<ReservationRow & { group_id: number }>(
    context.connection,
    context.isDryRun ? statement.replace(/for update$/, '') : statement,
  )
  return new Map(rows.map((row) => [row.token.toString('hex'), locatedIn(row)]))
}

/** Reads all reservations of the numbers that entries have. */
async function readOthers(
  context: ImportContext,
  entries: readonly ReservationEntry[],
  groups: ReadonlyMap<string, FoundGroup>,
): Promise<Map<string, Located[]>> {
  const located = entries.flatMap((entry) => {
    const group = groups.get(sequenceGroupKeyText(entry))
    return group ? [{ entry, id: group.id }] : []
  })
  if (located.length === 0) return new Map()
  const conditions = [
    ...groupBy(located, ({ id, entry }) => [id, entry.period, entry.generation].join(' ')).values(),
  ].map((some) => {
    const [{ id, entry }] = some
    const values = [...new Set(some.map((one) => one.entry.value))]
    return `group_id = ${integer(id)} and period_key = ${integer(entry.period)}
          and generation = ${integer(entry.generation)} and is_free in (0, 1) and value in (${list(values, integer)})`
  })
  const rows = await select<ReservationRow & { group_id: number }>(
    context.connection,
    `select token, group_id, period_key, generation, value, formatted, state, is_free, expires_at
       from reservation force index (reservation_free)
      where ${conditions.map((one) => `(${one})`).join(' or ')}
      order by token ${locking(context)}`,
  )
  return groupBy(rows.map(locatedIn), ({ place }) => place)
}

function locatedIn(row: ReservationRow & { group_id: number }): Located {
  const { token, state, isFree, periodKey: period, generation, value } = reservationIn(row)
  return { token, state, isFree, place: placeOf(row.group_id, { period, generation, value }) }
}
