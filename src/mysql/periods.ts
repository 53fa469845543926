import { type CounterRun, SMALL_SUM } from '../core/batch.ts'
import { startsAt } from '../core/definition.ts'
import type { CountingRow } from './counting.ts'
import { instant, integer } from './literals.ts'
import { PERIOD_CODES } from './retention.ts'

/** How much is to be added in the running periods of a counter. */
export interface Addition {
  run: CounterRun<CountingRow>
  added: bigint
}

/** The key of a period's row, but for the counter and the slot. */
interface Frame {
  period: number
  /** As a literal. */
  startsAt: string
}

/**
 * Writes the keys of the periods that are running at an instant. Most counters share their definition, so it is
 * done once for each of those.
 */
export function openFrames(at: Date): (row: CountingRow) => Frame[] {
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

/** Puts the counters together whose running periods are the same. */
export function byFrames(
  runs: readonly CounterRun<CountingRow>[],
  framesOf: (row: CountingRow) => Frame[],
): [Frame[], CounterRun<CountingRow>[]][] {
  const groups = new Map<Frame[], CounterRun<CountingRow>[]>()
  for (const run of runs) {
    const frames = framesOf(run.row)
    const others = groups.get(frames)
    if (others) others.push(run)
    else groups.set(frames, [run])
  }
  return [...groups]
}

/** How far from 0 a row of a period may come by additions that are not looked at; undefined: these are. */
export function guardOf({ wantsPeriodValues }: CounterRun<CountingRow>): number | undefined {
  return wantsPeriodValues ? undefined : Number.MAX_SAFE_INTEGER - SMALL_SUM
}

/**
 * Adds in the running periods of counters whose rows of all time are locked: who holds that lock is the only one
 * to touch the rows of its slot.
 *
 * What would leave the safe range, or come near its end, is refused without a look at what is there, null being no
 * value; unless it was looked at, and decided on.
 *
 * Measured on MariaDB 10.11, 64 counters with three periods in a transaction, for each counter: 13 µs of the
 * server's time without periods, 28 by this statement, and 20 by one UPDATE of rows that are known to be there.
 */
export function addInPeriods(
  additions: readonly Addition[],
  framesOf: (row: CountingRow) => Frame[],
  guard: number | undefined,
): string {
  const rows = additions.flatMap(({ run: { row, slot = 0 }, added }) =>
    framesOf(row).map(
      ({ period, startsAt }) => `(${integer(row.id)},${period},${startsAt},${slot},0,${added})`,
    ),
  )
  const sum = 'value + values(value)'
  return `insert into counter_value (counter_id, period, starts_at, slot, version, value)
values ${rows.join(',')}
on duplicate key update value = ${guard === undefined ? sum : `if(${sum} between ${-guard} and ${guard}, ${sum}, null)`}`
}

/** Reads what was added so far in the running periods of counters that have the same ones, and no slots. */
export function readPeriods(rows: readonly CountingRow[], frames: readonly Frame[]): string {
  return `select counter_id as id, period, value
  from counter_value force index (primary)
 where counter_id in (${rows.map(({ id }) => integer(id)).join(', ')}) and (${among(frames)}) and slot = 0
   for update`
}

/** Reads the same of a counter with slots: their sum, as far as others have let it be seen, or under all their locks. */
export function sumPeriods({ id }: CountingRow, frames: readonly Frame[], isLocked: boolean): string {
  return `select counter_id as id, period, cast(sum(value) as signed) as value
  from counter_value force index (primary)
 where counter_id = ${integer(id)} and (${among(frames)})
 group by counter_id, period${isLocked ? ' for update' : ''}`
}

function among(frames: readonly Frame[]): string {
  return frames.map(({ period, startsAt }) => `period = ${period} and starts_at = ${startsAt}`).join(' or ')
}
