import type { Decision } from '../../core/groupCommit/writer.ts'
import type { NumberState } from '../../core/sequences/state.ts'
import type { Marks } from '../counters/update.ts'
import { type SequenceGroupMember, sequenceGroupMember } from '../flush/members.ts'
import { type FlushForm, ownerOf, type Step, together } from '../flush/steps.ts'
import { groupBy } from '../groupBy.ts'
import { bytes, instant, integer, orNull } from '../literals.ts'
import { inLockOrder, isIssuedIn } from './record.ts'
import { closeReservation, insertReservations, takeFree } from './reservations.ts'
import { raiseRevisions } from './revisions.ts'

type Written = SequenceGroupMember & { write: NumberState }

/** The statements that write sequence groups. */
export function writeSequenceGroups(
  sequenceGroups: Decision['sequenceGroups'],
  { at, first }: Omit<Marks, 'raise'>,
  form: FlushForm,
): Step[] {
  const written = sequenceGroups
    .map(({ run, write }): Written => ({ ...sequenceGroupMember(run), write }))
    .sort(inLockOrder)
  const moved = written.filter(({ write }) => write.isMoved)
  const raised = written.map(({ row, write }) => ({ row, raise: write.raised }))
  return [
    ...together(moved, form).map((some) => ({ statement: writePositions(some, at), owner: ownerOf(some) })),
    ...together(raised, form).map((some) => raiseRevisions(some, first)),
    ...written.flatMap((one) => {
      const { row, run, write } = one
      const isLatest = !write.isIssued || isIssuedIn(row, run.periodKey, write.definition)
      const statements = [...(isLatest ? [] : [noteLatest(one)]), ...reservationWrites(one)]
      return statements.map((statement) => ({ statement, owner: row.key }))
    }),
  ]
}

/** Caches for sequence groups what the next flush need not write again. */
export function noteIssued(sequenceGroups: Decision['sequenceGroups']): void {
  for (const { run, write } of sequenceGroups) {
    const { row } = sequenceGroupMember(run)
    if (write.isIssued) row.issuedIn = { periodKey: run.periodKey, definition: write.definition }
  }
}

function writePositions(some: readonly Written[], at: Date): string {
  const values = some.map(({ row, run, write }) => {
    const { last, next, generation, isIssued } = write
    const key = `${integer(row.id)}, ${integer(run.periodKey)}`
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
function noteLatest({ row: { id, version }, run: { periodKey }, write: { definition } }: Written): string {
  return `update sequence_group
   set latest_period_key = if(version = ${integer(version)}, greatest(latest_period_key, ${integer(periodKey)}), ${integer(periodKey)}),
       version = ${integer(version)},
       format = ${orNull(definition.format, bytes)},
       time_zone = ${bytes(definition.timeZone)}
 where id = ${integer(id)}`
}

function reservationWrites({ row, run: { periodKey }, write }: Written): string[] {
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
