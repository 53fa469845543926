import { startsAt } from '../../core/counters/definition.ts'
import { type CounterRun, SMALL_SUM } from '../../core/groupCommit/counterRun.ts'
import type { CounterMember } from '../flush/members.ts'
import { instant, integer } from '../literals.ts'
import { PERIOD_CODES } from './retention.ts'
import type { CounterRecord } from './update.ts'

/** The primary key of a period's row, without the counter and the slot. */
export interface Frame {
  period: number
  /** As a literal. */
  startsAt: string
}

/**
 * Computes the keys of the periods that contain an instant, once for each definition, as most counters share theirs.
 */
export function openFrames(at: Date): (row: CounterRecord) => Frame[] {
  const frames = new Map<unknown, Frame[]>()
  return ({ definition }) => {
    const known = frames.get(definition)
    if (known) return known
    const starts = startsAt(definition, at.getTime())
    const opened = definition.periods.map(({ period }, index) => ({
      period: PERIOD_CODES[period],
      startsAt: instant(new Date(starts[index] ?? 0)),
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
  [first, ...others]: readonly [CounterMember, ...CounterMember[]],
  framesOf: (row: CounterRecord) => Frame[],
): string {
  const guard = guardOf(first.run)
  const rows = [first, ...others].flatMap(({ row, run: { slot = 0, added } }) =>
    framesOf(row).map(
      ({ period, startsAt }) => `(${integer(row.id)},${period},${startsAt},${slot},0,${added})`,
    ),
  )
  const sum = 'value + values(value)'
  return `insert into counter_value (counter_id, period, starts_at, slot, version, value)
values ${rows.join(',')}
on duplicate key update value = ${guard === undefined ? sum : `if(${sum} between ${-guard} and ${guard}, ${sum}, null)`}`
}

/** Locks and reads the totals of the current periods, for counters without slots that have the same ones. */
export function readPeriods(rows: readonly CounterRecord[], frames: readonly Frame[]): string {
  return `select counter_id as id, period, value
  from counter_value force index (primary)
 where counter_id in (${rows.map(({ id }) => integer(id)).join(', ')}) and (${among(frames)}) and slot = 0
   for update`
}

/** The same for a counter with slots: the sum, either as committed by other sessions or under all locks. */
export function sumPeriods({ id }: CounterRecord, frames: readonly Frame[], isLocked: boolean): string {
  return `select counter_id as id, period, cast(sum(value) as signed) as value
  from counter_value force index (primary)
 where counter_id = ${integer(id)} and (${among(frames)})
 group by counter_id, period${isLocked ? ' for update' : ''}`
}

function among(frames: readonly Frame[]): string {
  return frames.map(({ period, startsAt }) => `period = ${period} and starts_at = ${startsAt}`).join(' or ')
}
