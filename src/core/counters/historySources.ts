import { calendarOf, DAY_MS, PARTS, type Period } from '../time/calendar.ts'
import type { Retention, TrackedPeriod } from './definition.ts'

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
  const own = retention.periods.find((kept) => kept.period === period)
  // The coarsest kept period that divides it.
  const finer = PARTS[period].find((part) => retention.periods.some((kept) => kept.period === part))
  const since = finer || !own ? completeSince(retention, own, now) : keptSince(retention, own, now)
  const sources =
    finer && from < since
      ? historySourcesOf(retention, { period: finer, from, to: Math.min(to, since) }, now)
      : []
  if (since < to) sources.push({ period, from: Math.max(from, since), to, since })
  return sources
}

/** Start of the first complete period, in milliseconds since 1970. */
function completeSince(retention: Retention, own: TrackedPeriod | undefined, now: number): number {
  if (!own) return Number.POSITIVE_INFINITY
  return Math.max(own.since ?? Number.NEGATIVE_INFINITY, keptSince(retention, own, now))
}

/** Start of the first period that is kept: earlier ones may be deleted, or not yet. */
function keptSince({ timeZone }: Retention, { period, keepDays }: TrackedPeriod, now: number): number {
  if (keepDays === null) return Number.NEGATIVE_INFINITY
  return calendarOf(timeZone).bucketAt(period, now - keepDays * DAY_MS).start
}
