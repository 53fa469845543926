import { Temporal } from 'temporal-polyfill'

/** The calendar periods, finest first. Weeks begin on Monday. */
export const PERIODS = ['HOUR', 'DAY', 'WEEK', 'MONTH', 'YEAR'] as const

export type Period = (typeof PERIODS)[number]

/** The finer periods of which a period consists, coarsest first. Weeks don't fit into months and years. */
export const PARTS: Record<Period, readonly Period[]> = {
  HOUR: [],
  DAY: ['HOUR'],
  WEEK: ['DAY', 'HOUR'],
  MONTH: ['DAY', 'HOUR'],
  YEAR: ['MONTH', 'DAY', 'HOUR'],
}

/** A period of a calendar: from its first instant until the first one after it, in milliseconds since 1970. */
export interface Bucket {
  start: number
  end: number
}

/**
 * The periods of a time zone. They follow one another without a gap, whatever is done to the clock:
 *
 * - A day lasts from the first instant of its date until the first one of the next date that there is, so it has
 *   23 or 25 hours where the clock is changed. Weeks, months and years are made of days.
 * - An hour ends when the clock shows a full hour, or is changed. So a day of 25 hours has 25, and where the clock
 *   is changed by half an hour some are shorter.
 */
export interface Calendar {
  /** The period that an instant is in. */
  bucketAt(period: Period, at: number): Bucket
  /** What the clock shows at an instant, written as if it were UTC, in milliseconds. */
  clockAt(at: number): number
}

/**
 * How far calendars reach: a `datetime` of the database can't hold what is earlier, and each change of a clock takes
 * its time when it is looked at first.
 */
export const FIRST_INSTANT = Date.UTC(1000, 0, 2)
export const LAST_INSTANT = Date.UTC(2100, 0, 1)

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** What the longest of each period lasts, in milliseconds: a week with a clock put back, a leap year. */
export const LONGEST_MS: Record<Period, number> = {
  HOUR: HOUR_MS,
  DAY: DAY_MS + 3 * HOUR_MS,
  WEEK: 7 * DAY_MS + 3 * HOUR_MS,
  MONTH: 31 * DAY_MS + 3 * HOUR_MS,
  YEAR: 366 * DAY_MS + 3 * HOUR_MS,
}

/** From the start of each period to its middle, more or less, in milliseconds. */
export const HALF_MS: Record<Period, number> = {
  HOUR: HOUR_MS / 2,
  DAY: DAY_MS / 2,
  WEEK: 3.5 * DAY_MS,
  MONTH: 15 * DAY_MS,
  YEAR: 182 * DAY_MS,
}

/** More than a clock was ever behind or ahead of UTC, with the day that it skipped. */
const FURTHEST_OFFSET_MS = 48 * HOUR_MS

/** A stretch of time without a change of the clock. */
interface Stretch {
  from: number
  until: number
  /** How far the clock is ahead of UTC. */
  offset: number
}

const calendars = new Map<string, Calendar>()

/** The calendar of an IANA time zone, as `timeZoneNamed` gives it. */
export function calendarOf(timeZone: string): Calendar {
  const known = calendars.get(timeZone)
  if (known) return known
  const opened = openCalendar(timeZone)
  calendars.set(timeZone, opened)
  return opened
}

/** Whether a time zone was met before: its first calendar takes some milliseconds. */
export function isOpened(timeZone: string): boolean {
  return calendars.has(timeZone)
}

/** More than any zone's name has. Temporal looks at the whole of a longer one, several times. */
const LONGEST_NAME = 100

/** The IANA name that is meant, as the database of zones writes it; undefined: there is no such zone. */
export function timeZoneNamed(name: string): string | undefined {
  // Fixed offsets and some old names, which Temporal takes for zones, are not of that database.
  if (name.length > LONGEST_NAME || !/^[a-z]/i.test(name) || /^systemv/i.test(name)) return undefined
  try {
    return Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(name).timeZoneId
  } catch {
    return undefined
  }
}

function openCalendar(timeZone: string): Calendar {
  const stretchAt = openStretches(timeZone)
  const latest = new Map<Period, Bucket>()

  function bucketAt(period: Period, at: number): Bucket {
    const last = latest.get(period)
    if (last && last.start <= at && at < last.end) return last
    const bucket = period === 'HOUR' ? hourAt(at) : datesAt(period, at)
    latest.set(period, bucket)
    return bucket
  }

  function hourAt(at: number): Bucket {
    const { from, until, offset } = stretchAt(at)
    const start = floor(at + offset, HOUR_MS) - offset
    return { start: Math.max(start, from), end: Math.min(start + HOUR_MS, until) }
  }

  function datesAt(period: Exclude<Period, 'HOUR'>, at: number): Bucket {
    let date = firstDate[period](floor(at + stretchAt(at).offset, DAY_MS))
    while (true) {
      const next = nextDate[period](date)
      const end = beginningOf(next)
      // Where the clock was put back over midnight, the next date had begun already.
      if (at < end) return { start: beginningOf(date), end }
      date = next
    }
  }

  /** The first instant at which the clock shows a date, or a later one if it skips that. */
  function beginningOf(date: number): number {
    let stretch = stretchAt(date - FURTHEST_OFFSET_MS)
    while (date - stretch.offset >= stretch.until) stretch = stretchAt(stretch.until)
    return Math.max(date - stretch.offset, stretch.from)
  }

  return { bucketAt, clockAt: (at) => at + stretchAt(at).offset }
}

/** Dates are written as the midnight in UTC that begins them, in milliseconds. */
const firstDate: Record<Exclude<Period, 'HOUR'>, (date: number) => number> = {
  DAY: (date) => date,
  WEEK: (date) => date - ((new Date(date).getUTCDay() + 6) % 7) * DAY_MS,
  MONTH: (date) => new Date(date).setUTCDate(1),
  YEAR: (date) => new Date(date).setUTCMonth(0, 1),
}

const nextDate: Record<Exclude<Period, 'HOUR'>, (date: number) => number> = {
  DAY: (date) => date + DAY_MS,
  WEEK: (date) => date + 7 * DAY_MS,
  MONTH: (date) => new Date(date).setUTCMonth(new Date(date).getUTCMonth() + 1),
  YEAR: (date) => new Date(date).setUTCFullYear(new Date(date).getUTCFullYear() + 1),
}

/**
 * Finds the stretch that an instant is in. Each is asked for once: that takes Temporal some 100 µs, as long as a
 * hundred buckets take here.
 */
function openStretches(timeZone: string): (at: number) => Stretch {
  const known: Stretch[] = []
  let latest: Stretch | undefined
  return (at) => {
    if (!latest || at < latest.from || latest.until <= at) {
      latest = known.find(({ from, until }) => from <= at && at < until)
      if (!latest) {
        latest = stretchOf(timeZone, at)
        known.push(latest)
      }
    }
    return latest
  }
}

function stretchOf(timeZone: string, at: number): Stretch {
  const moment = Temporal.Instant.fromEpochMilliseconds(at).toZonedDateTimeISO(timeZone)
  // A transition at the very instant is not one before it.
  const before = moment.add({ milliseconds: 1 }).getTimeZoneTransition('previous')
  const after = moment.getTimeZoneTransition('next')
  return {
    from: before?.epochMilliseconds ?? Number.NEGATIVE_INFINITY,
    until: after?.epochMilliseconds ?? Number.POSITIVE_INFINITY,
    offset: moment.offsetNanoseconds / 1_000_000,
  }
}

function floor(value: number, step: number): number {
  return Math.floor(value / step) * step
}
