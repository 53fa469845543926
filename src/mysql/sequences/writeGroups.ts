import type { GroupWrite } from '../../core/sequences/state.ts'
import { type FlushForm, ownerOf, type Step, together } from '../flush/steps.ts'
import { bytes, instant, integer } from '../literals.ts'
import { bytesOrNull, integerOrNull } from './columns.ts'
import { raiseStep } from './groupRevisions.ts'
import { inOrder, keysOf, type NumberedRun } from './numberedRow.ts'
import { closeReservation, insertReservations, takeFree } from './reservations.ts'

/** The statements that write sequence groups. */
export function groupWriteSteps(
  groups: readonly NumberedRun[],
  writes: readonly (GroupWrite | undefined)[],
  { at, first }: { at: Date; first: number | undefined },
  form: FlushForm,
): Step[] {
  const written = groups
    .flatMap((run, index): Written[] => {
      const write = writes[index]
      return write ? [{ run, write }] : []
    })
    .sort(inOrder)
  const moved = written.filter(({ write }) => write.isMoved)
  const raised = written.map(({ run, write }) => ({ run, raise: write.raised }))
  return [
    ...together(moved, form).map((some) => ({
      statement: writePositions(some, at),
      owner: ownerOf(keysOf(some)),
    })),
    ...together(raised, form).map((some) => raiseStep(some, first)),
    ...written.flatMap(({ run, write }) => {
      const statements = [...(isNews(run, write) ? [noteLatest(run)] : []), ...reservationWrites(run, write)]
      return statements.map((statement) => ({ statement, owner: run.row.key }))
    }),
  ]
}

/** Caches for sequence groups what the next flush need not write again. */
export function noteDealt(groups: readonly NumberedRun[], writes: readonly (GroupWrite | undefined)[]): void {
  for (const [index, { row, periodKey, state }] of groups.entries()) {
    if (state && writes[index]?.isIssued) row.issuedIn = { periodKey, definition: state.definition }
  }
}

interface Written {
  run: NumberedRun
  write: GroupWrite
}

function writePositions(some: readonly Written[], at: Date): string {
  const values = some.map(({ run, write }) => {
    const { last, next, generation, isIssued } = write
    const key = `${integer(run.row.id)}, ${integer(run.periodKey)}`
    const issuedAt = isIssued ? instant(at) : 'null'
    return `(${key}, ${integerOrNull(last)}, ${integerOrNull(next)}, ${integer(generation)}, ${instant(at)}, ${issuedAt})`
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

function isNews({ row, periodKey, state }: NumberedRun, { isIssued }: GroupWrite): boolean {
  const { issuedIn } = row
  return isIssued && (issuedIn?.periodKey !== periodKey || issuedIn.definition !== state?.definition)
}

/** If this process's clock is behind another's, the later period stays the latest. */
function noteLatest({ row, periodKey }: NumberedRun): string {
  const { id, version, definition } = row
  return `update sequence_group
   set latest_period_key = if(version = ${integer(version)}, greatest(latest_period_key, ${integer(periodKey)}), ${integer(periodKey)}),
       version = ${integer(version)},
       format = ${bytesOrNull(definition.format)},
       time_zone = ${bytes(definition.timeZone)}
 where id = ${integer(id)}`
}

function reservationWrites(
  { row, periodKey }: NumberedRun,
  { taken, reserved, closed }: GroupWrite,
): string[] {
  const { id, definition } = row
  const generations = [...new Set(taken.map(({ generation }) => generation))]
  return [
    ...generations.map((generation) => {
      const values = taken.filter((one) => one.generation === generation).map(({ value }) => value)
      return takeFree({ id, periodKey, definition }, generation, values)
    }),
    ...(reserved.length > 0 ? [insertReservations(id, reserved)] : []),
    ...closed.map(closeReservation),
  ]
}
