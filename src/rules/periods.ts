import { type Bucket, calendarOf, DAY_MS, isKnownZone, PARTS, type Period } from './calendar.ts'
import type { Definition, Retention, TrackedPeriod } from './counter.ts'

/**
 * Running periods: those that contain the instant of a flush. What is added in them is kept in columns of the row that
 * has the value, as every change writes that row anyway. When the next period begins, the columns move to the history.
 *
 * The rule that always holds: the total of a period is its history row plus the columns, of all slots, with its start.
 *
 *   the columns have …            what an addition does
 *   the running period            adds to the columns
 *   no period, or an earlier one  adds the columns to the history, takes the running period's history row into them
 *                                 (without slots: with them, its lock would let only one slot commit at a time), and adds
 *                                 to them
 *   a later one                   adds to the history: another process has a clock that is ahead
 *   one that is not near          as for an earlier one: a clock was wrong
 */
export interface RunningPeriod {
  period: Period
  /** In milliseconds since 1970. */
  start: number
}

/** A period total, or what is added to one. */
export interface PeriodAddition extends RunningPeriod {
  added: bigint
}

/** A running period as a flush reads it. */
export interface PeriodReading extends RunningPeriod {
  /** What the row that is changed has in the columns of this kind of period; undefined: nothing. */
  columns: PeriodAddition | undefined
  /** In its history row, which is only read if the columns have another period. 0 with slots. */
  inHistory: bigint
  /** With slots, in the history row and the columns of other slots. */
  elsewhere: bigint
}

/** An addition to a row's columns. `isOpened`: it replaces what they have. */
export type ColumnWrite = PeriodAddition & { isOpened: boolean }

/** How far a clock may be ahead of the database's, in milliseconds. */
const AHEAD_MS = 5 * 60_000

/** The running periods of a counter that tracks some, in a time zone that is unknown here. Compare by identity. */
export const UNKNOWN_PERIODS: readonly RunningPeriod[] = []

/** The tracked periods that contain an instant, in milliseconds since 1970; or `UNKNOWN_PERIODS`. */
export function runningAt({ timeZone, periods }: Retention, at: number): readonly RunningPeriod[] {
  if (periods.length > 0 && !isKnownZone(timeZone)) return UNKNOWN_PERIODS
  return periods.map(({ period }) => ({ period, start: calendarOf(timeZone).bucketAt(period, at).start }))
}

export type RunningPeriods = ReturnType<typeof openRunningPeriods>

/** Maximum time zones and lists of periods that are cached: most counters share a few. */
const MAX_CACHED = 1000

/** Caches running periods until one of them ends. All counters with the same ones get the same array. */
export function openRunningPeriods() {
  const texts = new WeakMap<Definition, string>()
  const cached = new Map<string, Bucket & { running: readonly RunningPeriod[] }>()

  return (definition: Definition, at: number): readonly RunningPeriod[] => {
    const { timeZone, periods } = definition
    let text = texts.get(definition)
    if (text === undefined) {
      text = `${timeZone} ${periods.map(({ period }) => period)}`
      texts.set(definition, text)
    }
    const bucket = cached.get(text)
    if (bucket && bucket.start <= at && at < bucket.end) return bucket.running
    const running = runningAt(definition, at)
    if (running === UNKNOWN_PERIODS) return running
    const start = Math.max(...running.map((period) => period.start))
    const end = Math.min(...periods.map(({ period }) => calendarOf(timeZone).bucketAt(period, at).end))
    if (cached.size >= MAX_CACHED) cached.clear()
    cached.set(text, { start, end, running })
    return running
  }
}

/** Total of a running period. */
export function totalOf({ start, columns, inHistory, elsewhere }: PeriodReading): number {
  const inColumns = columns?.start === start ? columns.added : 0n
  return Number(inColumns + inHistory + elsewhere)
}

/** Adds to a running period. `now`: the database's clock, in milliseconds since 1970. */
export function addInPeriod(
  { period, start, columns, inHistory }: PeriodReading,
  added: bigint,
  now: number,
): { column?: ColumnWrite; history: PeriodAddition[] } {
  if (columns?.start === start) return { column: { period, start, added, isOpened: false }, history: [] }
  if (columns && columns.start > start && columns.start <= now + AHEAD_MS) {
    return { history: [{ period, start, added }] }
  }
  const moved = [...(columns ? [columns] : []), { period, start, added: -inHistory }]
  return {
    column: { period, start, added: inHistory + added, isOpened: true },
    history: moved.filter((addition) => addition.added !== 0n),
  }
}

/** The rows of a period that begin between `from` and `to` (exclusive), in milliseconds since 1970. */
export interface HistorySource {
  period: Period
  from: number
  to: number
}

/**
 * Which rows to sum for a time range of whole periods, so that each addition counts once: the period's own rows, as far
 * back as they are complete and kept (`since`), and finer periods before that. Empty if none are kept.
 */
export function historySourcesOf(
  retention: Retention,
  { period, from, to }: HistorySource,
  now: number,
): (HistorySource & { since: number })[] {
  const tracked = retention.periods.find((kept) => kept.period === period)
  // The coarsest kept period that divides it.
  const finer = PARTS[period].find((part) => retention.periods.some((kept) => kept.period === part))
  const keptFrom = tracked ? keptSince(retention, tracked, now) : Number.POSITIVE_INFINITY
  // Finer ones have what was added before it was tracked.
  const since = finer && tracked?.since != null ? Math.max(tracked.since, keptFrom) : keptFrom
  const sources =
    finer && from < since
      ? historySourcesOf(retention, { period: finer, from, to: Math.min(to, since) }, now)
      : []
  if (since < to) sources.push({ period, from: Math.max(from, since), to, since })
  return sources
}

/** Start of the first period that is kept: earlier ones may be deleted, or not yet. */
function keptSince({ timeZone }: Retention, { period, keepDays }: TrackedPeriod, now: number): number {
  if (keepDays === null) return Number.NEGATIVE_INFINITY
  return calendarOf(timeZone).bucketAt(period, now - keepDays * DAY_MS).start
}
