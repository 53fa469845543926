import type { Period } from '../time/calendar.ts'

/**
 * Running periods: those that contain the instant of a flush. What is added in them is kept in columns of the row that
 * has the value, as every change writes that row anyway. When the next period begins, the columns move to the history.
 *
 * The rule that always holds: the total of a period is its history row plus the columns, of all slots, with its start.
 *
 *   the columns have …            what an addition does
 *   the running period            adds to the columns
 *   no period, or an earlier one  adds the columns to the history, takes the running period's history row into them, and
 *                                 adds to them
 *   a later one                   adds to the history: another process has a clock that is ahead
 *   one that is not near          as for an earlier one: a clock was wrong
 */

/** A period in a row: its start, in milliseconds since 1970, and what was added in it through this row. */
export interface PeriodColumns {
  start: number
  added: bigint
}

/** What a flush finds of a tracked period. */
export interface FoundPeriod {
  /** In the row that is changed; undefined: no period. */
  columns: PeriodColumns | undefined
  /** In the running period's history row. It is only read if the columns have another period, or there are slots. */
  inHistory: bigint
  /** In the running period's columns of other slots. */
  inOtherSlots: bigint
}

/** An addition to a row's columns. `isOpened`: it replaces what they have. */
export type ColumnWrite = PeriodColumns & { period: Period; isOpened: boolean }

/** An addition to the history row of a period. */
export type HistoryAddition = PeriodColumns & { period: Period }

/** How far a clock may be ahead of the database's, in milliseconds. */
const AHEAD_MS = 5 * 60_000

/** Total of the running period, which begins at `start`. */
export function totalOf({ columns, inHistory, inOtherSlots }: FoundPeriod, start: number): number {
  const own = columns?.start === start ? columns.added : 0n
  return Number(own + inHistory + inOtherSlots)
}

/**
 * Adds to the running period, which begins at `start`.
 *
 * @param now the database's clock, in milliseconds since 1970
 */
export function addInPeriod(
  period: Period,
  { columns, inHistory }: FoundPeriod,
  { start, added, now }: PeriodColumns & { now: number },
): { column: ColumnWrite | undefined; history: HistoryAddition[] } {
  if (columns?.start === start) return { column: { period, start, added, isOpened: false }, history: [] }
  if (columns && columns.start > start && columns.start <= now + AHEAD_MS) {
    return { column: undefined, history: [{ period, start, added }] }
  }
  const moved = [...(columns ? [{ period, ...columns }] : []), { period, start, added: -inHistory }]
  return {
    column: { period, start, added: inHistory + added, isOpened: true },
    history: moved.filter((one) => one.added !== 0n),
  }
}
