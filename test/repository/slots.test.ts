import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { expect, it, onTestFinished } from 'vitest'
import { claimOf } from '../../src/rules/idempotency.ts'
import { sorted, upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { collectStatements } from '../support/database/statements.ts'
import { key, never, stopClock, valueIn, withPeriodValues } from '../support/model/periods.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

stopClock()

it('slots: what is counted is spread over them, and read as their sum, in periods too', async () => {
  const target = await freshDatabase()
  const processes = upTo(2).map(() => openTestNth(target))
  const [first] = processes
  await first?.counters.define(key, { slots: 5 })
  for (const _ of upTo(60)) {
    await Promise.all(processes.map(({ counters }) => counters.incrementBy(key, 1)))
  }
  for (const { counters } of processes) {
    expect(await counters.read(key)).toMatchObject({ value: 120, definition: { slots: 5 } })
    expect(await valueIn(counters, 'MONTH')).toBe(120)
  }
  const rows = await query(
    target,
    'select slot, value, day_added, month_added from counter_value order by slot',
  )
  // Each slot has had its share: that one has none of 120 is one in 10^11.
  expect(rows.map(({ slot, value }) => [slot, value > 0 && value < 60])).toEqual(
    upTo(5).map((slot) => [slot - 1, true]),
  )
  const ranked = await first?.leaderboard.list('n', { order: 'VALUE_DESC', limit: 9, fromEnd: false })
  const listed = await first?.counters.list('n', { prefix: '', limit: 9, fromEnd: false })
  expect([ranked?.map(({ value }) => value), listed?.items.map(({ value }) => value)]).toEqual([[120], [120]])
})

it('slots: the counter has the time of the latest change of its slots', async () => {
  let now = new Date('2026-03-01T12:00:00.123Z')
  const { counters } = openTestNth(await freshDatabase(), { now: () => now })
  await counters.define(key, { slots: 5 })
  now = new Date('2026-03-01T23:59:59.987Z')
  await counters.incrementBy(key, 1)
  expect((await counters.read(key)).updatedAt).toEqual(now)
  const { items } = await counters.list('n', { prefix: '', limit: 9, fromEnd: false })
  expect(items[0]?.updatedAt).toEqual(now)
})

it('slots: values are approximate, and exact if only one process counts', async () => {
  const { counters } = openTestNth(await freshDatabase())
  await counters.define(key, { slots: 100 })
  const changes = await Promise.all(upTo(50).map(() => counters.incrementBy(key, 2, withPeriodValues)))
  expect(sorted(changes.map(({ value }) => value))).toEqual(upTo(50).map((n) => 2 * n))
  expect(sorted(changes.map(({ valuesIn }) => valuesIn?.DAY ?? 0))).toEqual(upTo(50).map((n) => 2 * n))
  expect(changes.every(({ value, previousValue }) => value - previousValue === 2)).toBe(true)
})

it('slots: are refused for what has bounds, and bounds for what has slots', async () => {
  const { counters } = openTestNth(await freshDatabase())
  await counters.define(key, { maxValue: 9 })
  const refusal = (argument: string) => ({ code: 'BAD_USER_INPUT', details: { argument } })
  await expect(counters.define(key, { slots: 2 })).rejects.toMatchObject(refusal('definition.slots'))
  await counters.define(key, { slots: 2, maxValue: null })
  await expect(counters.define(key, { maxValue: 9 })).rejects.toMatchObject(refusal('definition.maxValue'))
  await expect(counters.define(key, { minValue: 0 })).rejects.toMatchObject(refusal('definition.minValue'))
  await counters.define(key, { slots: null, minValue: 0 })
  await expect(counters.incrementBy(key, -1)).rejects.toMatchObject({ code: 'LIMIT_REACHED' })
})

it('slots: their sum stays within the safe range while two processes come to its end again and again', async () => {
  const target = await freshDatabase()
  const processes = upTo(2).map(() => openTestNth(target))
  const { counters } = processes[0] ?? never()
  const end = Number.MAX_SAFE_INTEGER
  await counters.define(key, { slots: 16, periods: [] })
  for (const _ of upTo(20)) {
    await counters.reset(key, end - 10)
    const outcomes = await Promise.all(
      upTo(16).map((caller) =>
        (processes[caller % 2] ?? never()).counters.incrementBy(key, 1).then(
          () => 'counted',
          ({ code }) => code,
        ),
      ),
    )
    expect(outcomes.filter((outcome) => outcome === 'counted')).toHaveLength(10)
    expect(outcomes.filter((outcome) => outcome === 'OUT_OF_RANGE')).toHaveLength(6)
    expect(await counters.read(key)).toMatchObject({ value: end })
  }
})

it('slots: none waits for the history, so that several can commit at once', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  await counters.incrementBy(key, 5)
  // Moves the running periods to the history.
  await counters.define(key, { slots: 16 })
  await counters.incrementBy(key, 1)
  const holder = await createConnection(target)
  onTestFinished(() => holder.destroy())
  await holder.query('begin')
  const [held] = await holder.query<RowDataPacket[]>('select * from counter_history for update')
  expect(held).toHaveLength(3)
  for (const number of upTo(20)) {
    expect((await counters.incrementBy(key, 1, withPeriodValues)).valuesIn?.MONTH).toBe(6 + number)
  }
  expect(await valueIn(counters, 'DAY')).toBe(26)
})

it('slots: are changed under load of two processes without losing a hit', async () => {
  const target = await freshDatabase()
  const processes = upTo(2).map(() => openTestNth(target))
  let isOver = false
  let counted = 0
  const callers = upTo(16).map(async (caller) => {
    const { counters } = processes[caller % 2] ?? never()
    for (let call = 0; !isOver; call++) {
      const claim = caller % 4 === 0 ? claimOf('n', `${caller} ${call}`, []) : undefined
      await counters.incrementBy(key, 1, { claim, wantsPeriodValues: caller % 3 === 0 })
      counted += 1
    }
  })
  const { counters } = processes[0] ?? never()
  for (const slots of [4, 1, 100, 7, 1024, 2, 1]) {
    await counters.define(key, { slots })
    const until = counted + 100
    await expect.poll(() => counted).toBeGreaterThan(until)
  }
  isOver = true
  await Promise.all(callers)
  expect(await counters.read(key)).toMatchObject({ value: counted, definition: { slots: 1 } })
  for (const period of ['HOUR', 'DAY', 'MONTH'] as const) {
    expect([period, await valueIn(counters, period)]).toEqual([period, counted])
  }
  expect(await query(target, 'select slot from counter_value')).toEqual([{ slot: 0 }])
  // Exact again.
  const changes = await Promise.all(upTo(20).map(() => counters.incrementBy(key, 1, withPeriodValues)))
  expect(sorted(changes.map(({ value }) => value))).toEqual(upTo(20).map((n) => counted + n))
  expect(sorted(changes.map(({ valuesIn }) => valuesIn?.MONTH ?? 0))).toEqual(
    upTo(20).map((n) => counted + n),
  )
  expect(processes.flatMap(({ faults }) => faults)).toEqual([])
})

it('slots: each of several counters that are changed in one flush has its sum', async () => {
  const { counters } = openTestNth(await freshDatabase())
  const keys = upTo(3).map((index) => ({ namespace: 'n', name: `c${index}` }))
  for (const key of keys) await counters.define(key, { slots: 3 })
  const increments = [
    [1, 5, -9],
    [10, 50, 90],
  ]
  for (const deltas of increments)
    await Promise.all(keys.map((key, index) => counters.incrementBy(key, deltas[index] ?? 0)))
  const statements = collectStatements()
  const resets = await Promise.all(keys.map((key, index) => counters.reset(key, index, withPeriodValues)))
  expect(statements).toHaveLength(2)
  expect(resets.map(({ previousValue }) => previousValue)).toEqual([11, 55, 81])
  expect(resets.map(({ valuesIn }) => valuesIn?.MONTH)).toEqual([11, 55, 81])
})

it('slots: their counters go into carts, and are reset with all others', async () => {
  const { ask } = await startService()
  const { defineCounter } = await ask(
    'mutation { defineCounter(name: "hot", definition: { slots: 3 }) { slots value } }',
  )
  expect(defineCounter).toEqual({ slots: 3, value: 0 })
  const { incrementMany } = await ask(
    'mutation { incrementMany(changes: [{ name: "hot" }, { name: "cold", delta: 2 }, { name: "hot" }]) { value } }',
  )
  expect(incrementMany).toEqual([{ value: 1 }, { value: 2 }, { value: 2 }])
  const { resetAll } = await ask('mutation { resetAll(namespace: "default", to: 4) { resetCount } }')
  expect(resetAll).toEqual({ resetCount: 2 })
  expect(await ask('{ counters(names: ["hot", "cold"]) { value } }')).toEqual({
    counters: [{ value: 4 }, { value: 4 }],
  })
})
