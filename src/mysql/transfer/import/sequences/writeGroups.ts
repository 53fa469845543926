import type { LatestNumbers } from '../../../../core/transfer/entries.ts'
import { bytes, instant, integer, orNull } from '../../../literals.ts'
import { raisedRevision } from '../../../revisions.ts'
import type { ImportContext } from '../context.ts'
import type { MergedGroup } from './groupRows.ts'

/** Writes sequence groups, whose rows are locked: the positions that change, and what belongs to their latest numbers. */
export async function writeGroups(context: ImportContext, merged: readonly MergedGroup[]): Promise<void> {
  const { connection, now } = context
  const rows = merged.flatMap(({ group, positions }) =>
    positions.flatMap(({ period, merge: { position } }) => {
      if (!position) return []
      const { createdAt = now, updatedAt = now } = period
      const numbers = [
        orNull(position.last, integer),
        orNull(position.next, integer),
        integer(position.generation),
      ]
      const times = [orNull(createdAt, instant), orNull(updatedAt, instant)]
      return `(${[integer(group.id), integer(period.period), integer(group.identity), ...numbers, ...times].join(', ')})`
    }),
  )
  if (rows.length > 0) {
    await connection.query(
      `insert into sequence_value
  (group_id, period_key, identity, value, next_value, generation, created_at, updated_at)
values ${rows.join(', ')}
on duplicate key update
       value = values(value),
       next_value = values(next_value),
       generation = values(generation),
       created_at = coalesce(created_at, values(created_at)),
       updated_at = coalesce(values(updated_at), updated_at)`,
    )
  }
  for (const one of merged.toSorted((a, b) => a.group.id - b.group.id)) {
    const latest = latestOf(one)
    const isChanged = one.group.isNew || one.positions.some(({ merge }) => merge.position)
    if (!isChanged && !latest) continue
    const assignments = latest ? latestAssignments(one, latest) : ''
    await connection.query(
      `update sequence_group
   set ${raisedRevision('not is_used', 1)},
       is_used = true${assignments}
 where id = ${integer(one.group.id)}`,
    )
  }
}

/** The latest numbers of the file, if they become those of the group. */
function latestOf({ entry, group, positions }: MergedGroup): LatestNumbers | undefined {
  if (entry.type !== 'sequenceGroup' || !entry.latest) return undefined
  const { latest } = entry
  const { latestPeriod } = group
  if (latestPeriod === null) return latest
  const isTaken = positions.some(({ period, merge }) => period.period === latest.period && merge.position)
  return isTaken && latest.period >= latestPeriod ? latest : undefined
}

/** `version` is that of the sequence if it has not been redefined since these numbers, or else an earlier one. */
function latestAssignments({ sequence }: MergedGroup, latest: LatestNumbers): string {
  const { definition, version } = sequence
  const { format = definition.format, timeZone = definition.timeZone } = latest
  const isCurrent = latest.isCurrent && format === definition.format && timeZone === definition.timeZone
  return `,
       latest_period_key = ${integer(latest.period)},
       version = ${integer(isCurrent ? version : version - 1)},
       format = ${orNull(format, bytes)},
       time_zone = ${bytes(timeZone)}`
}
