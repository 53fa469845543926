import { calendarOf, PARTS, type Period } from './calendar.ts'
import type { Keeping, TrackedPeriod } from './definition.ts'

/** Rows of a period that begin in a stretch of time: from `from`, before `to`, in milliseconds. */
export interface Teller {
  period: Period
  from: number
  to: number
}

const DAY_MS = 86_400_000

/**
 * Which rows tell what was added in a stretch of time that is made of whole periods, each addition once: the
 * period's own, as far back as these are complete and kept (`since`), and before that finer ones. Empty if none are kept.
 */
export function tellersOf(keeping: Keeping, stretch: Teller, now: number): (Teller & { since: number })[] {
  const { period, from, to } = stretch
  const own = keeping.periods.find((kept) => kept.period === period)
  const finer = finerOf(keeping, period)
  if (!own) return finer ? tellersOf(keeping, { ...stretch, period: finer }, now) : []
  const since = finer ? knownSince(keeping, own, now) : Number.NEGATIVE_INFINITY
  const tellers =
    from < since && finer ? tellersOf(keeping, { period: finer, from, to: Math.min(to, since) }, now) : []
  if (since < to) tellers.push({ period, from: Math.max(from, since), to, since })
  return tellers
}

/** The coarsest of the periods that are kept and that a period consists of; undefined: there is none. */
function finerOf({ periods }: Keeping, period: Period): Period | undefined {
  return PARTS[period].find((part) => periods.some((kept) => kept.period === part))
}

/** The start of the first period of which there is all, in milliseconds. */
function knownSince({ timeZone }: Keeping, { period, keepDays, since }: TrackedPeriod, now: number): number {
  const complete = since ?? Number.NEGATIVE_INFINITY
  if (keepDays === null) return complete
  // Those that end from then on are still there.
  return Math.max(complete, calendarOf(timeZone).bucketAt(period, now - keepDays * DAY_MS).start)
}
