import type { RowDataPacket } from 'mysql2'
import type { Answer } from '../connections/session.ts'
import {
  type Finds,
  type FlushForm,
  hasSlots,
  MARK,
  type Member,
  ownerOf,
  type Step,
} from '../flush/steps.ts'
import { byFrames, openFrames, readPeriods, sumPeriods } from './periods.ts'

/** Reads the totals of the current periods, where wanted. */
export function periodTotalSteps(
  members: readonly Member[],
  at: Date,
  { onePerStatement }: FlushForm,
): Step[] {
  const wanted = members.filter(({ run }) => run.wantsPeriodValues && run.row.definition.periods.length > 0)
  if (wanted.length === 0) return []
  const framesOf = openFrames(at)
  const indexOf = new Map(wanted.map(({ run, index }) => [run, index]))
  const runs = wanted.map(({ run }) => run)
  const groups = [
    ...runs.filter((run) => onePerStatement || hasSlots(run)).map((run) => [run]),
    ...byFrames(
      runs.filter((run) => !onePerStatement && !hasSlots(run)),
      framesOf,
    ).map(([, group]) => group),
  ]
  return groups.flatMap((group) => {
    const [first] = group
    if (!first) return []
    const frames = framesOf(first.row)
    const rows = group.map(({ row }) => row)
    const statement = hasSlots(first)
      ? sumPeriods(first.row, frames, first.slot === undefined)
      : readPeriods(rows, frames)
    return [{ statement, owner: ownerOf(rows.map(({ key }) => key)), read }, { statement: MARK }]

    function read(answer: Answer, { periodTotals }: Finds): void {
      if (!Array.isArray(answer)) return
      const byId = new Map(group.map((run) => [run.row.id, [] as RowDataPacket[]]))
      for (const row of answer) byId.get(row.id)?.push(row)
      for (const run of group) {
        const own = byId.get(run.row.id) ?? []
        periodTotals[indexOf.get(run) ?? 0] = frames.map((frame) =>
          Number(own.find(({ period }) => period === frame.period)?.value ?? 0),
        )
      }
    }
  })
}
