// @module-tag random
import fc from 'fast-check'
import { Temporal } from 'temporal-polyfill'
import { expect, it, onTestFinished, vi } from 'vitest'
import {
  calendarOf,
  DAY_MS,
  isPeriodKey,
  PERIODS,
  type Period,
  periodKeyOf,
  timeZoneNamed,
} from '../../src/rules/calendar.ts'
import { runSize } from '../support/random.ts'

const ZONES = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'Asia/Kolkata',
  'Asia/Kathmandu',
  'Australia/Lord_Howe',
  'America/Sao_Paulo',
  'Pacific/Apia',
  'America/St_Johns',
  'America/Havana',
]

const zone = fc.constantFrom(...ZONES)
const period = fc.constantFrom(...PERIODS)
const instant = fc.integer({ min: Date.UTC(1971, 0, 1), max: Date.UTC(2060, 0, 1) })

it('calendarOf: lets periods follow one another without a gap, with each instant in one of them', () => {
  fc.assert(
    fc.property(zone, period, instant, (timeZone, period, at) => {
      const { bucketAt } = calendarOf(timeZone)
      const { start, end } = bucketAt(period, at)
      expect(start <= at && at < end).toBe(true)
      for (const within of [start, end - 1, at]) expect(bucketAt(period, within)).toEqual({ start, end })
      expect(bucketAt(period, end).start).toBe(end)
      expect(bucketAt(period, start - 1).end).toBe(start)
    }),
    { numRuns: runSize(500, 2000) },
  )
})

it('calendarOf: begins each period where one of the finer periods that it consists of begins', () => {
  const finer: [Period, Period][] = [
    ['DAY', 'HOUR'],
    ['WEEK', 'DAY'],
    ['MONTH', 'DAY'],
    ['YEAR', 'MONTH'],
  ]
  fc.assert(
    fc.property(zone, fc.constantFrom(...finer), instant, (timeZone, [coarse, fine], at) => {
      const { bucketAt } = calendarOf(timeZone)
      const { start } = bucketAt(coarse, at)
      expect(bucketAt(fine, start).start).toBe(start)
    }),
    { numRuns: runSize(200, 1000) },
  )
})

it('calendarOf: begins days, weeks, months and years when Temporal does', () => {
  fc.assert(
    fc.property(zone, instant, (timeZone, at) => {
      const moment = Temporal.Instant.fromEpochMilliseconds(at).toZonedDateTimeISO(timeZone)
      const date = moment.toPlainDate()
      const begins = (day: Temporal.PlainDate) => day.toZonedDateTime(timeZone).epochMilliseconds
      const { bucketAt } = calendarOf(timeZone)
      const starts = (['DAY', 'WEEK', 'MONTH', 'YEAR'] as const).map((period) => bucketAt(period, at).start)
      const expected = [
        begins(date),
        begins(date.subtract({ days: date.dayOfWeek - 1 })),
        begins(date.with({ day: 1 })),
        begins(date.with({ month: 1, day: 1 })),
      ]
      // Where the clock was put back over midnight, the old date came again: the new day goes on.
      const isAgain = begins(date.add({ days: 1 })) <= at
      if (!isAgain) expect(starts).toEqual(expected)
    }),
    { numRuns: runSize(200, 1000) },
  )
})

it.each([
  ['Europe/Berlin', '2026-03-29', 23, [60]],
  ['Europe/Berlin', '2026-10-25', 25, [60]],
  ['America/New_York', '2026-03-08', 23, [60]],
  ['America/New_York', '2026-11-01', 25, [60]],
  // Midnight is skipped there.
  ['America/Sao_Paulo', '2018-11-04', 23, [60]],
  ['America/Sao_Paulo', '2018-02-17', 25, [60]],
  // Half an hour, at two o'clock.
  ['Australia/Lord_Howe', '2026-10-04', 24, [60, 30]],
  ['Australia/Lord_Howe', '2026-04-05', 25, [60, 30]],
  ['Asia/Kathmandu', '2026-03-29', 24, [60]],
])('calendarOf: gives the hours of %s on %s: %i of them', (timeZone, day, count, lengths) => {
  const { bucketAt } = calendarOf(timeZone)
  const noon = Temporal.PlainDate.from(day).toZonedDateTime({
    timeZone,
    plainTime: '12:00',
  }).epochMilliseconds
  const { start, end } = bucketAt('DAY', noon)
  const hours = []
  for (let at = start; at < end; at = hours.at(-1)?.end ?? end) hours.push(bucketAt('HOUR', at))
  expect(hours.at(-1)?.end).toBe(end)
  expect(hours).toHaveLength(count)
  expect(new Set(hours.map((hour) => (hour.end - hour.start) / 60_000))).toEqual(new Set(lengths))
})

it('calendarOf: has no day that its zone has skipped', () => {
  const { bucketAt } = calendarOf('Pacific/Apia')
  const eve = bucketAt('DAY', Date.UTC(2011, 11, 30, 8))
  const after = bucketAt('DAY', eve.end)
  const dateOf = (at: number) =>
    Temporal.Instant.fromEpochMilliseconds(at).toZonedDateTimeISO('Pacific/Apia').toPlainDate().toString()
  expect([dateOf(eve.start), dateOf(after.start)]).toEqual(['2011-12-29', '2011-12-31'])
})

it('calendarOf: continues with the new day when the clock is put back over midnight', () => {
  // At a minute past midnight of the 7th, the clock in St. John's shows 23:01 of the 6th again.
  const { bucketAt } = calendarOf('America/St_Johns')
  const midnight = Date.parse('2010-11-07T02:30:00Z')
  const day = { start: midnight, end: midnight + 25 * 3_600_000 }
  expect(bucketAt('DAY', midnight + 30 * 60_000)).toEqual(day)
  expect(bucketAt('DAY', midnight - 1).end).toBe(midnight)
  expect(bucketAt('DAY', midnight)).toEqual(day)
})

it('timeZoneNamed: knows time zones by their IANA names, in any case, and nothing else', () => {
  const names = ['europe/berlin', 'ASIA/KOLKATA', 'Asia/Calcutta', 'US/Eastern', 'utc', 'Etc/GMT+5']
  const meant = ['Europe/Berlin', 'Asia/Kolkata', 'Asia/Calcutta', 'US/Eastern', 'UTC', 'Etc/GMT+5']
  expect(names.map(timeZoneNamed)).toEqual(meant)
  for (const name of [
    '',
    '+01:00',
    'Z',
    'Mars/Olympus',
    'SystemV/EST5',
    'Europe/Berlin ',
    '2026-01-01[UTC]',
    'x'.repeat(9999),
  ])
    expect([name, timeZoneNamed(name)]).toEqual([name, undefined])
})

it('calendarOf: knows a clock change that was too far ahead when the process started, with its clock years behind', () => {
  // South Sudan put its clock back in February 2021, for the first time in 21 years.
  const at = Date.UTC(2012, 0, 1)
  vi.useFakeTimers({ toFake: ['Date'], now: at })
  onTestFinished(() => void vi.useRealTimers())
  const { clockAt } = calendarOf('Africa/Juba')
  expect(clockAt(at) - at).toBe(3 * 3_600_000)
  vi.useRealTimers()
  const later = Date.UTC(2026, 0, 1)
  expect(clockAt(later) - later).toBe(2 * 3_600_000)
})

it('isPeriodKey: knows each period by its key', () => {
  const wrong: unknown[] = []
  for (let at = Date.UTC(2019, 11, 20); at < Date.UTC(2033, 0, 20); at += DAY_MS * 1.29)
    for (const period of PERIODS) {
      const key = periodKeyOf(period, 'UTC', new Date(at))
      // An assertion for each would take seconds.
      for (const other of [...PERIODS, null])
        if (isPeriodKey(key, other) !== (other === period)) wrong.push([key, other])
    }
  expect(wrong).toEqual([])
  expect(isPeriodKey(0, null)).toBe(true)
})

it.each<[Period, number[]]>([
  ['YEAR', [0, -2026, 20261]],
  ['MONTH', [202600, 202613, -20261]],
  ['WEEK', [2026000, 2026054, 2025053]],
  ['DAY', [20260230, 20261301, 20261100]],
  ['HOUR', [2026112124, 2026023000]],
])('isPeriodKey: takes no other number for a %s', (period, keys) => {
  for (const key of keys) expect([key, isPeriodKey(key, period)]).toEqual([key, false])
})
