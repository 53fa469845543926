// @module-tag random
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { PERIODS, periodKeyOf } from '../../src/rules/calendar.ts'
import { formatOf, hiddenOf, parseFormat, writerOf } from '../../src/rules/format.ts'
import { periodNameAt } from '../support/model/periods.ts'
import { runSize } from '../support/random.ts'

const RUNS = runSize(500, 2000)

const AT = new Date('2026-01-01T00:30:00Z')

it.each([
  [null, '', 7, '7'],
  [null, 'BOARD', 7, 'BOARD-7'],
  ['{value:5}', '', 42, '00042'],
  ['{value:3}', '', 12345, '12345'],
  ['{value:3}', '', -7, '-007'],
  ['INV-{yyyy}-{value:5}', '', 1, 'INV-2026-00001'],
  ['{group}/{yy}{MM}{dd}-{value}', 'Köln', 9, 'Köln/260101-9'],
  ['{week} #{value}', '', 3, '2026-W01 #3'],
  ['{{{value}}}', '', 3, '{3}'],
  ['}}{{{value} 😀', '', 3, '}{3 😀'],
  ['{HH}h {value}', '', 3, '00h 3'],
])('writerOf: writes by %s', (format, group, value, text) => {
  expect(writerOf({ format, timeZone: 'UTC' }, group, AT)(value)).toBe(text)
})

it('writerOf: writes dates of the time zone', () => {
  const format = '{yyyy}-{MM}-{dd} {HH} {week} {value}'
  expect(writerOf({ format, timeZone: 'America/New_York' }, '', AT)(1)).toBe('2025-12-31 19 2026-W01 1')
  expect(writerOf({ format, timeZone: 'Asia/Kathmandu' }, '', AT)(1)).toBe('2026-01-01 06 2026-W01 1')
})

it.each([
  ['', undefined, /must contain \{value\} exactly once/],
  ['INV-{yyyy}', undefined, /must contain \{value\} exactly once/],
  ['{value}-{value}', 9, /twice/],
  ['{group}{value}{group}', 15, /twice/],
  ['INV-{vlue}', 5, /unknown field \{vlue\}/],
  ['{value:0}', 1, /unknown field \{value:0\}/],
  ['{value:17}', 1, /unknown field/],
  ['{value:05}', 1, /unknown field/],
  ['{constructor} {value}', 1, /unknown field/],
  ['{ value }', 1, /unknown field/],
  ['{}{value}', 1, /unknown field \{\}/],
  ['INV-{value', 5, /not closed/],
  ['😀{value}}', 9, /unmatched/],
  ['{yyyy}{value}', 7, /next to/],
  ['{value}{week}', 8, /next to/],
  [`${'x'.repeat(185)}{value}`, 192, /at most 191/],
])('parseFormat: refuses %s, and says where', (format, position, message) => {
  const fault = parseFormat(format)
  expect(fault).toMatchObject({ message: expect.stringMatching(message) })
  expect('position' in fault ? fault.position : undefined).toBe(position)
})

it.each([
  ['{value}', 'YEAR', ['{yyyy}']],
  ['{yy}/{value}', 'YEAR', []],
  ['{week}/{value}', 'YEAR', ['{yyyy}']],
  ['{value}', 'MONTH', ['{yyyy}', '{MM}']],
  ['{yyyy}{MM}-{value}', 'MONTH', []],
  ['{yyyy}{MM}-{value}', 'WEEK', ['{week}']],
  ['{week}-{value}', 'WEEK', []],
  ['{dd}.{MM}.{yy} {value}', 'WEEK', []],
  ['{week}-{value}', 'DAY', ['{yyyy}', '{MM}', '{dd}']],
  ['{yyyy}-{MM}-{dd} {value}', 'HOUR', ['{HH}']],
  ['{yyyy}-{MM}-{dd} {HH} {value}', 'HOUR', []],
] as const)('hiddenOf: knows what %s hides of a %s', (format, period, hidden) => {
  expect(hiddenOf(formatOf(format, false), period)).toEqual(hidden)
})

const ZONES = [
  'UTC',
  'Europe/Berlin',
  'Pacific/Apia',
  'America/New_York',
  'Asia/Kathmandu',
  'Australia/Lord_Howe',
]

it('periodKeyOf: gives periods the same periodKey if and only if the calendar shows the same period', () => {
  const instant = fc.integer({ min: Date.UTC(1990, 0), max: Date.UTC(2050, 0) })
  const near = fc.oneof(
    fc.integer({ min: -3, max: 3 }).map((days) => days * 86_400_000),
    fc.integer({ min: -4e6, max: 4e6 }),
  )
  let same = 0
  fc.assert(
    fc.property(
      instant,
      near,
      fc.constantFrom(...ZONES),
      fc.constantFrom(...PERIODS),
      (at, later, zone, period) => {
        const isSame = periodNameAt(period, zone, at) === periodNameAt(period, zone, at + later)
        if (isSame) same++
        const periodKeys = [at, at + later].map((one) => periodKeyOf(period, zone, new Date(one)))
        expect(periodKeys[0] === periodKeys[1]).toBe(isSame)
        expect(periodKeys[0]).toBeLessThan(2 ** 32)
        if (later >= 0 && period !== 'HOUR') expect(periodKeys[0]).toBeLessThanOrEqual(periodKeys[1] ?? 0)
      },
    ),
    { numRuns: RUNS },
  )
  expect(same).toBeGreaterThan(RUNS / 5)
})
