import { rowsOf } from '../connections/session.ts'
import { type CounterMember, hasSlots } from '../flush/members.ts'
import { type FlushForm, ownerOf, type Step, select } from '../flush/steps.ts'
import { groupBy } from '../groupBy.ts'
import { openFrames, readPeriods, sumPeriods } from './periods.ts'

/** Reads the totals of the current periods, where wanted. */
export function periodTotalSteps(
  counters: readonly CounterMember[],
  at: Date,
  { onePerStatement }: FlushForm,
): Step[] {
  const wanted = counters.filter(({ run, row }) => run.wantsPeriodValues && row.definition.periods.length > 0)
  if (wanted.length === 0) return []
  const framesOf = openFrames(at)
  const groups = groupBy(wanted, (member) =>
    onePerStatement || hasSlots(member) ? member : framesOf(member.row),
  )
  return [...groups.values()].flatMap((group) => {
    const [first] = group
    const frames = framesOf(first.row)
    const statement = hasSlots(first)
      ? sumPeriods(first.row, frames, first.run.slot === undefined)
      : readPeriods(
          group.map(({ row }) => row),
          frames,
        )
    return select(statement, ownerOf(group), (answer) => {
      const found = groupBy(rowsOf(answer), ({ id }): number => id)
      for (const member of group) {
        const own = found.get(member.row.id) ?? []
        member.periodTotals = frames.map(({ period }) =>
          Number(own.find((row) => row.period === period)?.value ?? 0),
        )
      }
    })
  })
}
