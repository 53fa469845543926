import { type Definition, startsAt } from '../../core/counters/definition.ts'
import { type CounterRun, SMALL_SUM } from '../../core/groupCommit/counterRun.ts'
import { type CounterMember, hasSlots } from '../flush/members.ts'
import { type FlushForm, ownerOf, type Step, select } from '../flush/steps.ts'
import { groupBy } from '../groupBy.ts'
import { instant, integer, list } from '../literals.ts'
import { PERIOD_CODES } from './columns.ts'
import type { CounterRecord } from './update.ts'

/** The primary key of a period's row, without the counter and the slot: a code, and a literal. */
type Frame = { period: number; startsAt: string }

/** Computes the keys of the periods that contain an instant, once for each definition: most counters share theirs. */
export function openFrames(at: Date): (row: CounterRecord) => Frame[] {
  const frames = new Map<Definition, Frame[]>()
  return ({ definition }) => {
    const known = frames.get(definition)
    if (known) return known
    const starts = startsAt(definition, at.getTime())
    const opened = definition.periods.map(({ period }, index) => ({
      period: PERIOD_CODES[period],
      startsAt: instant(starts[index] ?? 0),
    }))
    frames.set(definition, opened)
    return opened
  }
}

/** Maximum absolute value of a total that is changed without being read; undefined: it was read. */
export function guardOf({ wantsPeriodValues }: CounterRun): number | undefined {
  return wantsPeriodValues ? undefined : Number.MAX_SAFE_INTEGER - SMALL_SUM
}

/**
 * Adds to the totals of the current periods of counters whose all-time rows are locked: only the holder of that lock
 * touches the other rows of its slot. They have the same guard (see `guardOf`).
 *
 * With a guard, a total outside the safe range or near its end becomes null, so the statement fails. Without one, the
 * totals were read and checked before.
 *
 * Measured on MariaDB 10.11, 64 counters with three periods in a transaction, server time for each counter: 13 µs
 * without periods, 28 with this statement, and 20 with one UPDATE of rows that are known to exist.
 */
export function addInPeriods(
  members: readonly [CounterMember, ...CounterMember[]],
  framesOf: (row: CounterRecord) => Frame[],
): string {
  const guard = guardOf(members[0].run)
  const rows = members.flatMap(({ row, run: { slot = 0, added } }) =>
    framesOf(row).map(
      ({ period, startsAt }) => `(${integer(row.id)},${period},${startsAt},${slot},0,${added})`,
    ),
  )
  const sum = 'value + values(value)'
  return `insert into counter_value (counter_id, period, starts_at, slot, version, value)
values ${rows.join(',')}
on duplicate key update value = ${guard === undefined ? sum : `if(${sum} between ${-guard} and ${guard}, ${sum}, null)`}`
}

type TotalRow = Record<'id' | 'period', number> & { value: number | string }

/** Reads the totals of the current periods, where wanted. */
export function periodTotalSteps(counters: readonly CounterMember[], at: Date, form: FlushForm): Step[] {
  const wanted = counters.filter(({ run, row }) => run.wantsPeriodValues && row.definition.periods.length > 0)
  if (wanted.length === 0) return []
  const framesOf = openFrames(at)
  const groups = groupBy(wanted, (one) => (form.onePerStatement || hasSlots(one) ? one : framesOf(one.row)))
  return [...groups.values()].flatMap((group) => {
    const [first] = group
    const frames = framesOf(first.row)
    const statement = hasSlots(first)
      ? sumPeriods(first.row, frames, first.run.slot === undefined)
      : readPeriods(group, frames)
    return select<TotalRow>(statement, ownerOf(group), (rows) => {
      const found = groupBy(rows, ({ id }) => id)
      for (const member of group) {
        const own = found.get(member.row.id) ?? []
        member.periodTotals = frames.map(({ period }) =>
          Number(own.find((row) => row.period === period)?.value ?? 0),
        )
      }
    })
  })
}

/** Locks and reads the totals, for counters without slots that have the same periods. */
function readPeriods(counters: readonly CounterMember[], frames: readonly Frame[]): string {
  return `select counter_id as id, period, value
  from counter_value force index (primary)
 where counter_id in (${list(counters, ({ row }) => integer(row.id))}) and (${among(frames)}) and slot = 0
   for update`
}

/** The same for a counter with slots: the sum, either as committed by other sessions or under all locks. */
function sumPeriods({ id }: CounterRecord, frames: readonly Frame[], isLocked: boolean): string {
  return `select counter_id as id, period, cast(sum(value) as signed) as value
  from counter_value force index (primary)
 where counter_id = ${integer(id)} and (${among(frames)})
 group by counter_id, period${isLocked ? ' for update' : ''}`
}

function among(frames: readonly Frame[]): string {
  return frames.map(({ period, startsAt }) => `period = ${period} and starts_at = ${startsAt}`).join(' or ')
}
