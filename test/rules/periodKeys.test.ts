import { expect, it } from 'vitest'
import { DAY_MS, isPeriodKey, PERIODS, type Period, periodKeyOf } from '../../src/rules/calendar.ts'

it('isPeriodKey: knows each period by its key', () => {
  for (let at = Date.UTC(2019, 11, 20); at < Date.UTC(2033, 0, 20); at += DAY_MS * 1.29)
    for (const period of PERIODS) {
      const key = periodKeyOf(period, 'UTC', new Date(at))
      for (const other of PERIODS) expect([key, isPeriodKey(key, other)]).toEqual([key, other === period])
      expect(isPeriodKey(key, null)).toBe(false)
    }
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
