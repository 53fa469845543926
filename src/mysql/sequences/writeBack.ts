import type { Writes } from '../../core/groupCommit/writer.ts'
import type { NumberState } from '../../core/sequences/state.ts'
import { type Form, idsOf, ownerOf, type Statement, together } from '../flush/statements.ts'
import { groupBy } from '../groupBy.ts'
import { bytes, instant, integer, orNull } from '../literals.ts'
import { raisedRevision } from '../revisions.ts'
import { inLockOrder, isIssuedIn, type SequenceGroupRecord, type SequenceGroupRecordWork } from './record.ts'
import { closeReservation, insertReservations, takeFree } from './reservations.ts'

type Written = SequenceGroupRecordWork & { write: NumberState }

/** The statements that write sequence groups. `first`: initial revision, if known. */
export function writeSequenceGroups(
  sequenceGroups: Writes['sequenceGroups'],
  first: number | undefined,
  form: Form,
): Statement[] {
  const written = sequenceGroups
    // All rows come from this store.
    .map(({ work, write }) => ({ ...work, write }) as Written)
    .sort(inLockOrder)
  const moved = written.filter(({ write }) => write.isMoved)
  const raised = written.map(({ row, write }) => ({ row, raise: write.raised }))
  return [
    ...together(moved, form).map((group) => ({
      text: writePositions(group, form.at),
      owner: ownerOf(group),
    })),
    ...together(raised, form).map((group) => raiseRevisions(group, first)),
    ...written.flatMap((work) => {
      const { row, periodKey, write } = work
      const isLatest = !write.isIssued || isIssuedIn(row, periodKey, write.definition)
      const texts = [...(isLatest ? [] : [noteLatest(work)]), ...reservationWrites(work)]
      return texts.map((text) => ({ text, owner: row.key }))
    }),
  ]
}

/** Caches for sequence groups what the next flush need not write again. */
export function noteIssued(sequenceGroups: Writes['sequenceGroups']): void {
  for (const { work, write } of sequenceGroups) {
    // All rows come from this store.
    const row = work.row as SequenceGroupRecord
    if (write.isIssued) row.issuedIn = { periodKey: work.periodKey, definition: write.definition }
  }
}

/** After their numbers of the current period are locked or changed. `first`: that of an unused one, if known. */
export function raiseRevisions(
  raised: readonly { row: SequenceGroupRecord; raise: number }[],
  first?: number,
): Statement {
  const [{ raise = 0 } = {}] = raised
  const isSame = raised.every((each) => each.raise === raise)
  const cases = raised.map((each) => `when ${integer(each.row.id)} then ${integer(each.raise)}`)
  const by = isSame ? integer(raise) : `case id ${cases.join(' ')} end`
  const text = `update sequence_group force index (primary)
   set ${raisedRevision('not is_used', by, first)},
       is_used = true
 where id in (${idsOf(raised)})`
  return { text, owner: ownerOf(raised) }
}

function writePositions(some: readonly Written[], at: Date): string {
  const values = some.map(({ row, periodKey, write }) => {
    const { last, next, generation, isIssued } = write
    const key = `${integer(row.id)}, ${integer(periodKey)}`
    const issuedAt = isIssued ? instant(at) : 'null'
    return `(${key}, ${orNull(last, integer)}, ${orNull(next, integer)}, ${integer(generation)}, ${instant(at)}, ${issuedAt})`
  })
  return `insert into sequence_value
  (group_id, period_key, value, next_value, generation, created_at, updated_at)
values ${values.join(', ')}
on duplicate key update
       value = values(value),
       next_value = values(next_value),
       generation = values(generation),
       created_at = coalesce(created_at, values(created_at)),
       updated_at = coalesce(values(updated_at), updated_at)`
}

/** If this process's clock is behind another's, the later period stays the latest. */
function noteLatest({ row: { id, version }, periodKey, write: { definition } }: Written): string {
  return `update sequence_group
   set latest_period_key = if(version = ${integer(version)}, greatest(latest_period_key, ${integer(periodKey)}), ${integer(periodKey)}),
       version = ${integer(version)},
       format = ${orNull(definition.format, bytes)},
       time_zone = ${bytes(definition.timeZone)}
 where id = ${integer(id)}`
}

function reservationWrites({ row, periodKey, write }: Written): string[] {
  const { taken, reserved, closed } = write
  const { id, definition } = row
  return [
    ...[...groupBy(taken, ({ generation }) => generation)].map(([generation, some]) => {
      const values = some.map(({ value }) => value)
      return takeFree({ id, periodKey, definition }, generation, values)
    }),
    ...(reserved.size > 0 ? [insertReservations(id, [...reserved])] : []),
    ...[...closed].map(closeReservation),
  ]
}
