import { NthError } from '../errors.ts'
import { hasRoom, untilRoom } from '../eventLoop/ticks.ts'
import { type Bucket, type Calendar, FIRST_INSTANT, LAST_INSTANT, type Period } from '../time/calendar.ts'

export interface HistoryRange {
  /** Number of periods up to `to`; used without `from` only. */
  last: number
  /** An instant in the first period. */
  from?: Date | null | undefined
  /** The last period starts before this instant. Without it, the last period is the current one. */
  to?: Date | null | undefined
}

/** Numbers of periods of a history. */
export const DEFAULT_BUCKETS = 30
export const MAX_BUCKETS = 5000

/** Number of periods that take less than 0.1 ms in a cached time zone. */
export const SHORT = 50

/** The periods of a range, oldest first. In a time zone that is not cached yet, each may be slow. */
export async function bucketsIn(calendar: Calendar, period: Period, range: HistoryRange, now: number) {
  const { last, from, to } = range
  for (const [argument, at] of Object.entries({ from, to })) {
    if (at && (at.getTime() < FIRST_INSTANT || at.getTime() > LAST_INSTANT)) throw tooFar(argument, 'is')
  }
  const buckets: Bucket[] = []
  if (from) {
    const until = to?.getTime() ?? now + 1
    for (let at = from.getTime(); at < until; at = buckets.at(-1)?.end ?? until) {
      if (buckets.length === MAX_BUCKETS) throw tooMany('from', `The range from ${from.toISOString()} has`)
      buckets.push(calendar.bucketAt(period, at))
      if (buckets.length > SHORT && !hasRoom(0)) await untilRoom(0)
    }
    return buckets
  }
  if (last > MAX_BUCKETS) throw tooMany('last', `\`last: ${last}\` is`)
  let end = to?.getTime() ?? now + 1
  while (buckets.length < last) {
    if (end <= FIRST_INSTANT) throw tooFar('last', 'reaches')
    const bucket = calendar.bucketAt(period, end - 1)
    buckets.push(bucket)
    end = bucket.start
    if (last > SHORT && !hasRoom(0)) await untilRoom(0)
  }
  return buckets.reverse()
}

function tooFar(argument: string, verb: string): NthError {
  const message = `\`${argument}\` ${verb} outside the years 1000 to 2099.`
  return new NthError('BAD_USER_INPUT', message, { argument })
}

function tooMany(argument: string, what: string): NthError {
  const message = `${what} more than ${MAX_BUCKETS} periods; request fewer at a time.`
  return new NthError('BAD_USER_INPUT', message, { argument, limit: MAX_BUCKETS })
}
