import { Temporal } from 'temporal-polyfill'
import { UnusableRowError } from './errors.ts'

/** The calendar periods, finest first. Weeks begin on Monday. */
export const PERIODS = ['HOUR', 'DAY', 'WEEK', 'MONTH', 'YEAR'] as const

export type Period = (typeof PERIODS)[number]

/** The finer periods that make up a period, coarsest first. Weeks don't fit into months and years. */
export const PARTS: Record<Period, readonly Period[]> = {
  HOUR: [],
  DAY: ['HOUR'],
  WEEK: ['DAY', 'HOUR'],
  MONTH: ['DAY', 'HOUR'],
  YEAR: ['MONTH', 'DAY', 'HOUR'],
}

/** A calendar period: its first instant, and the first one after it, in milliseconds since 1970. */
export interface Bucket {
  start: number
  end: number
}

/** Range of calendars: a `datetime` can't hold earlier instants, and each clock change is slow to compute once. */
export const FIRST_INSTANT = Date.UTC(1000, 0, 2)
export const LAST_INSTANT = Date.UTC(2100, 0, 1)

const HOUR_MS = 3_600_000
export const DAY_MS = 24 * HOUR_MS

/** Maximum length of each period, in milliseconds: a week with the clock put back, a leap year. */
export const LONGEST_MS: Record<Period, number> = {
  HOUR: HOUR_MS,
  DAY: DAY_MS + 3 * HOUR_MS,
  WEEK: 7 * DAY_MS + 3 * HOUR_MS,
  MONTH: 31 * DAY_MS + 3 * HOUR_MS,
  YEAR: 366 * DAY_MS + 3 * HOUR_MS,
}

/** Approximate time from the start of each period to its middle, in milliseconds. */
export const HALF_MS: Record<Period, number> = {
  HOUR: HOUR_MS / 2,
  DAY: DAY_MS / 2,
  WEEK: 3.5 * DAY_MS,
  MONTH: 15 * DAY_MS,
  YEAR: 182 * DAY_MS,
}

/** More than any offset from UTC, plus a day that the clock skipped. */
const FURTHEST_OFFSET_MS = 48 * HOUR_MS

const calendars = new Map<string, Calendar>()

/**
 * The calendar of an IANA time zone, named as returned by `timeZoneNamed`.
 *
 * @throws {UnusableRowError} UNAVAILABLE if it is unknown
 */
export function calendarOf(timeZone: string): Calendar {
  const cached = calendars.get(timeZone)
  if (cached) return cached
  if (!isKnownZone(timeZone)) throw unknownZone(timeZone)
  const opened = openCalendar(timeZone)
  calendars.set(timeZone, opened)
  return opened
}

/** More than the length of any zone name. Temporal scans longer ones in full, several times. */
const LONGEST_NAME = 100

/** The IANA name of a zone as spelled in the time zone database; undefined: no such zone. */
export function timeZoneNamed(name: string): string | undefined {
  // Temporal also accepts fixed offsets and some old names, which are not in that database.
  if (name.length > LONGEST_NAME || !/^[a-z]/i.test(name) || /^systemv/i.test(name)) return undefined
  try {
    return Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(name).timeZoneId
  } catch {
    return undefined
  }
}

/** A later version, or somebody else, may have stored one that is unknown here. */
export function isKnownZone(timeZone: string): boolean {
  return calendars.has(timeZone) || timeZoneNamed(timeZone) !== undefined
}

/** Not the caller's fault, and a server of a later version may do what was requested: hence UNAVAILABLE. */
export function unknownZone(timeZone: string): UnusableRowError {
  const message = `The database has the time zone ${JSON.stringify(timeZone)}, which this version of Nth does not know. Update Nth, or define another timeZone. Nothing was done.`
  return new UnusableRowError('UNAVAILABLE', message, { retryAfterMs: 1000 })
}

export type Calendar = ReturnType<typeof openCalendar>

/**
 * The periods of a time zone. They are contiguous, also across clock changes:
 *
 * - A day lasts from the first instant of its date to the first instant of the next date that exists, so a day with a
 *   clock change has 23 or 25 hours. Weeks, months and years consist of days.
 * - An hour ends when the clock shows a full hour, or changes. So a day of 25 hours has 25 hour periods, and a clock
 *   change of half an hour makes some shorter.
 */
function openCalendar(timeZone: string) {
  const stretchAt = openStretches(timeZone)
  const latest = new Map<Period, Bucket>()

  /** The period that contains an instant. */
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
    let date = firstDate[period](at + stretchAt(at).offset)
    while (true) {
      const next = firstDate[period](date + LONGEST_MS[period])
      const end = beginningOf(next)
      // If the clock was put back across midnight, the next date had already begun.
      if (at < end) return { start: beginningOf(date), end }
      date = next
    }
  }

  /** The first instant at which the clock shows a date, or a later date if it skips this one. */
  function beginningOf(date: number): number {
    let stretch = stretchAt(date - FURTHEST_OFFSET_MS)
    while (date - stretch.offset >= stretch.until) stretch = stretchAt(stretch.until)
    return Math.max(date - stretch.offset, stretch.from)
  }

  return {
    bucketAt,
    /** Local time at an instant, encoded as if it were UTC, in milliseconds. */
    clockAt: (at: number) => at + stretchAt(at).offset,
  }
}

const MONDAY = Date.UTC(2001, 0, 1)

/**
 * The first date of the period that contains a local time, which is encoded as if it were UTC, in milliseconds. A date is
 * encoded as its midnight.
 */
const firstDate: Record<Exclude<Period, 'HOUR'>, (time: number) => number> = {
  DAY: (time) => floor(time, DAY_MS),
  WEEK: (time) => floor(time - MONDAY, 7 * DAY_MS) + MONDAY,
  MONTH: (time) => new Date(floor(time, DAY_MS)).setUTCDate(1),
  YEAR: (time) => new Date(floor(time, DAY_MS)).setUTCMonth(0, 1),
}

/** Finds the stretch of an instant. Each is computed once: it takes Temporal 100 µs, like a hundred buckets here. */
function openStretches(timeZone: string): (at: number) => Stretch {
  const cache: Stretch[] = []
  let latest: Stretch | undefined
  return (at) => {
    if (!latest || at < latest.from || latest.knownUntil <= at) {
      latest = cache.find(({ from, knownUntil }) => from <= at && at < knownUntil) ?? stretchOf(timeZone, at)
      if (!cache.includes(latest)) cache.push(latest)
    }
    return latest
  }
}

type Stretch = ReturnType<typeof stretchOf>

/** Temporal finds the next clock change up to three years ahead. */
const KNOWN_AHEAD_MS = 2 * 365 * DAY_MS

/**
 * A stretch of time without a clock change, and until when none is known to follow. `offset`: how far the clock is ahead of
 * UTC, in milliseconds.
 */
function stretchOf(timeZone: string, at: number) {
  const moment = Temporal.Instant.fromEpochMilliseconds(at).toZonedDateTimeISO(timeZone)
  // `previous` does not include a transition at the instant itself.
  const before = moment.add({ milliseconds: 1 }).getTimeZoneTransition('previous')
  const after = moment.getTimeZoneTransition('next')
  return {
    from: before?.epochMilliseconds ?? Number.NEGATIVE_INFINITY,
    until: after?.epochMilliseconds ?? Number.POSITIVE_INFINITY,
    knownUntil: after?.epochMilliseconds ?? at + KNOWN_AHEAD_MS,
    offset: moment.offsetNanoseconds / 1_000_000,
  }
}

function floor(value: number, step: number): number {
  return Math.floor(value / step) * step
}

/**
 * An instant in the period to which a total belongs. Unless a period starts with it, it was recorded in another time zone,
 * and its middle decides.
 */
export function instantOf(calendar: Calendar, period: Period, start: number): number {
  return calendar.bucketAt(period, start).start === start ? start : start + HALF_MS[period]
}

export type LocalDate = ReturnType<typeof localDate>

/** The local date and hour of an instant. `weekYear`: the ISO 8601 week year, that of the week's Thursday. */
export function localDate(timeZone: string, at: Date) {
  const clock = new Date(calendarOf(timeZone).clockAt(at.getTime()))
  const year = clock.getUTCFullYear()
  const [month, day] = [clock.getUTCMonth() + 1, clock.getUTCDate()]
  const thursday = firstDate.WEEK(clock.getTime()) + 3 * DAY_MS
  const weekYear = new Date(thursday).getUTCFullYear()
  const week = 1 + Math.floor((thursday - Date.UTC(weekYear, 0, 1)) / (7 * DAY_MS))
  return { year, month, day, hour: clock.getUTCHours(), weekYear, week }
}

/** The keys of periods: 2026, 202611, 2026047 for a week, 20261121 and 2026112118. */
const keys: Record<Period, (date: LocalDate) => number> = {
  YEAR: ({ year }) => year,
  MONTH: (date) => keys.YEAR(date) * 100 + date.month,
  WEEK: ({ weekYear, week }) => weekYear * 1000 + week,
  DAY: (date) => keys.MONTH(date) * 100 + date.day,
  HOUR: (date) => keys.DAY(date) * 100 + date.hour,
}

/**
 * The calendar period of an instant as a number. Unique, except for an hour that the clock repeats, which counts as one
 * period. 0: without periods.
 */
export function periodKeyOf(period: Period | null, timeZone: string, at: Date): number {
  return period === null ? 0 : keys[period](localDate(timeZone, at))
}

/** Whether a key is a period key of this length, such as 202611 for a month; null: without periods. */
export function isPeriodKey(key: number, period: Period | null): boolean {
  if (period === null) return key === 0
  const [, year = '', rest = ''] = /^(\d{4})(\d*)$/.exec(String(key)) ?? []
  const [month = '01', day = '01', hour = '00'] = rest.match(/../g) ?? []
  // January 4 is always in week 1.
  const at =
    period === 'WEEK'
      ? Date.UTC(Number(year), 0, 4) + (Number(rest) - 1) * 7 * DAY_MS
      : Date.parse(`${year}-${month}-${day}T${hour}:00Z`)
  return !Number.isNaN(at) && periodKeyOf(period, 'UTC', new Date(at)) === key
}
