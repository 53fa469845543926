import { expect, it } from 'vitest'
import { upTo } from '../support/client/client.ts'
import { freshDatabase } from '../support/database/database.ts'
import { key, never, turnedClock, valueIn, withPeriodValues } from '../support/model/periods.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

const HOUR_MS = 3_600_000

it('defineCounter(timeZone:): moves each total to the period of the new time zone that contains its midpoint', async () => {
  const clock = turnedClock('2026-11-30T20:30:00Z')
  const { counters } = openTestNth(await freshDatabase(), clock)
  await counters.incrementBy(key, 3)
  clock.at += HOUR_MS
  await counters.incrementBy(key, 4)
  // It is December in Tokyo, where the day has begun at 15:00 in UTC: most of the UTC day was before.
  await counters.define(key, { timeZone: 'Asia/Tokyo' })
  expect((await counters.incrementBy(key, 1, withPeriodValues)).valuesIn).toEqual({
    HOUR: 5,
    DAY: 1,
    MONTH: 1,
  })
  const counter = await counters.read(key)
  for (const [period, values] of [
    ['HOUR', [3, 5]],
    ['DAY', [7, 1]],
    ['MONTH', [7, 1]],
  ] as const) {
    const history = await counters.history(counter, period, { last: 2 })
    expect([period, history?.map(({ value }) => value)]).toEqual([period, values])
  }
  // Back again, the running day of UTC holds what is in its hours, but for the one that has gone over.
  await counters.define(key, { timeZone: 'UTC' })
  expect((await counters.incrementBy(key, 1, withPeriodValues)).valuesIn).toEqual({
    HOUR: 6,
    DAY: 9,
    MONTH: 9,
  })
})

it('defineCounter(periods:): refuses a definition that would add totals to more than a number can hold', async () => {
  const clock = turnedClock('2026-11-30T20:30:00Z')
  const { counters, faults } = openTestNth(await freshDatabase(), clock)
  await counters.define(key, { periods: [{ period: 'HOUR' }] })
  await counters.incrementBy(key, Number.MAX_SAFE_INTEGER)
  await counters.reset(key, 0)
  clock.at += HOUR_MS
  await counters.incrementBy(key, 1)
  const day = counters.define(key, { periods: [{ period: 'HOUR' }, { period: 'DAY' }] })
  await expect(day).rejects.toMatchObject({ code: 'OUT_OF_RANGE' })
  await expect(valueIn(counters, 'DAY')).rejects.toMatchObject({ code: 'OUT_OF_RANGE' })
  expect((await counters.incrementBy(key, 1, withPeriodValues)).valuesIn).toEqual({ HOUR: 2 })
  expect(faults).toEqual([])
})

it('valueIn(HOUR): counts the first instant of an hour in that hour, also when it is read then', async () => {
  const clock = turnedClock('2026-11-30T21:00:00Z')
  const { counters } = openTestNth(await freshDatabase(), clock)
  expect((await counters.incrementBy(key, 1, withPeriodValues)).valuesIn).toMatchObject({ HOUR: 1 })
  const history = await counters.history(await counters.read(key), 'HOUR', { last: 1 })
  expect(history).toEqual([{ start: clock.at, end: clock.at + HOUR_MS, value: 1 }])
})

it('defineCounter(timeZone:): adds what comes together with a definition in the periods of before it, or of after it', async () => {
  const { counters } = openTestNth(await freshDatabase(), turnedClock('2026-11-15T20:30:00Z'))
  await counters.incrementBy(key, 1)
  const before = [1, 2, 3].map(() => counters.incrementBy(key, 1))
  const defined = counters.define(key, { timeZone: 'Asia/Kathmandu' })
  const after = [1, 2].map(() => counters.incrementBy(key, 1))
  await Promise.all([...before, defined, ...after])
  // The hour begins a quarter past there; nothing may be left, or come, in the one that began before.
  expect((await counters.incrementBy(key, 1, withPeriodValues)).valuesIn?.HOUR).toBe(7)
  expect(await valueIn(counters, 'HOUR')).toBe(7)
})

it('defineCounter(timeZone:): changes the time zone under load of two processes without losing a hit', async () => {
  const clock = turnedClock('2026-11-15T20:30:00Z')
  const target = await freshDatabase()
  const processes = upTo(2).map(() => openTestNth(target, clock))
  let isOver = false
  let counted = 0
  const callers = upTo(8).map(async (caller) => {
    const { counters } = processes[caller % 2] ?? never()
    while (!isOver) {
      await counters.incrementBy(key, 1, caller % 3 ? withPeriodValues : {})
      counted += 1
    }
  })
  const { counters } = processes[0] ?? never()
  for (const timeZone of ['Asia/Tokyo', 'America/New_York', 'UTC', 'Pacific/Apia', 'Asia/Kathmandu']) {
    await counters.define(key, { timeZone })
    const until = counted + 100
    await expect.poll(() => counted).toBeGreaterThan(until)
  }
  isOver = true
  await Promise.all(callers)
  const { valuesIn } = await counters.incrementBy(key, 1, withPeriodValues)
  counted += 1
  const counter = await counters.read(key)
  for (const period of ['HOUR', 'DAY', 'MONTH'] as const) {
    // A change returns what a read returns: nothing was added to a row of the earlier zone.
    expect([period, valuesIn?.[period]]).toEqual([period, await counters.valueIn(counter, period)])
    const history = await counters.history(counter, period, {
      last: 50,
      to: new Date('2026-11-17T00:00:00Z'),
    })
    expect([period, history?.reduce((sum, { value }) => sum + value, 0)]).toEqual([period, counted])
  }
})

it('defineNamespace: creates counters with the defaults of their namespace, and leaves existing ones unchanged', async () => {
  const { ask } = await startService()
  await ask('mutation { increment(name: "old") { value } }')
  const definition = '{ timeZone: "america/new_york", periods: [{ period: WEEK, keepDays: 400 }] }'
  const { defineNamespace } = await ask(
    `mutation { defineNamespace(definition: ${definition}) { timeZone periods { period keepDays } } }`,
  )
  const kept = { timeZone: 'America/New_York', periods: [{ period: 'WEEK', keepDays: 400 }] }
  expect(defineNamespace).toEqual(kept)
  const fields = 'timeZone periods { period keepDays }'
  const standard = {
    timeZone: 'UTC',
    periods: [
      { period: 'HOUR', keepDays: 90 },
      { period: 'DAY', keepDays: null },
      { period: 'MONTH', keepDays: null },
    ],
  }
  const read = `{ old: counter(name: "old") { ${fields} } new: counter(name: "new") { ${fields} } namespace { ${fields} } }`
  expect(await ask(read)).toEqual({ old: standard, new: kept, namespace: kept })
  const { increment } = await ask('mutation { increment(name: "new") { week: valueIn(period: WEEK) } }')
  expect(increment).toEqual({ week: 1 })
  expect(await ask(read)).toEqual({ old: standard, new: kept, namespace: kept })
  // Null is back to the default: of a counter, what the namespace says.
  await ask('mutation { defineCounter(name: "old", definition: { timeZone: null, periods: null }) { id } }')
  await ask('mutation { defineNamespace(definition: { timeZone: null }) { id } }')
  expect(await ask(read)).toEqual({
    old: kept,
    new: kept,
    namespace: { ...kept, timeZone: 'UTC' },
  })
})
