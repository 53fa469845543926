import { expect, it } from 'vitest'
import type { Database } from '../../src/mysql/pool.ts'
import type { Target } from '../../src/mysql/settings.ts'
import { claimDue, sweepPeriods } from '../../src/repository/jobs.ts'
import type { Period } from '../../src/rules/calendar.ts'
import { sorted, upTo } from '../support/client/client.ts'
import { freshDatabase, openTestDatabase, query } from '../support/database/database.ts'
import { holdRows } from '../support/database/hold.ts'
import { periodTotals } from '../support/database/totals.ts'
import { turnedClock } from '../support/model/periods.ts'
import { openTestNth } from '../support/server/nth.ts'

const DAY_MS = 86_400_000
const key = { namespace: 'n', name: 'c' }

function sweep(database: Database, now: Date, shouldContinue = () => true): Promise<void> {
  return sweepPeriods({ database, now, shouldContinue })
}

async function startsIn(target: Target, wanted: Period): Promise<string[]> {
  const totals = await periodTotals(target)
  return totals
    .filter(({ period }) => period === wanted)
    .map(({ start }) => start.toISOString().slice(5, 13).replace('T', ' '))
}

it('sweepPeriods: removes what is past its retention, and nothing else', async () => {
  const target = await freshDatabase()
  let now = Date.parse('2026-06-01T12:00:00Z')
  const { counters } = openTestNth(target, { now: () => new Date(now) })
  await counters.define(key, {
    periods: [{ period: 'HOUR', keepDays: 2 }, { period: 'DAY', keepDays: 4 }, { period: 'MONTH' }],
  })
  for (const _ of upTo(7)) {
    await counters.incrementBy(key, 1)
    now += DAY_MS
  }
  now -= DAY_MS
  await sweep(openTestDatabase(target), new Date(now))
  // It is noon of the 7th. The hour of noon of the 5th ended less than two days ago.
  expect(await startsIn(target, 'HOUR')).toEqual(['06-05 12', '06-06 12', '06-07 12'])
  // Days may have 25 hours and more.
  expect(await startsIn(target, 'DAY')).toEqual(['06-03 00', '06-04 00', '06-05 00', '06-06 00', '06-07 00'])
  expect(await startsIn(target, 'MONTH')).toEqual(['06-01 00'])
  expect(await counters.read(key)).toMatchObject({ value: 7 })
})

it('history: returns the period that contains the edge of its retention, and none before, also if nothing was swept', async () => {
  const clock = turnedClock('2026-06-01T10:59:59.999Z')
  const { counters } = openTestNth(await freshDatabase(), clock)
  await counters.define(key, { periods: [{ period: 'HOUR', keepDays: 2 }] })
  const sumAt = async (at: string) => {
    clock.at = Date.parse(at)
    const history = await counters.history(await counters.read(key), 'HOUR', { last: 60 })
    return history?.reduce((sum, { value }) => sum + value, 0)
  }
  // In the hours of 10, 11 and 12 o'clock.
  await counters.incrementBy(key, 1)
  clock.at += 1
  await counters.incrementBy(key, 2)
  clock.at += DAY_MS / 24
  await counters.incrementBy(key, 4)
  expect(await sumAt('2026-06-03T10:59:59.999Z')).toBe(7)
  expect(await sumAt('2026-06-03T11:00:00.000Z')).toBe(6)
  expect(await sumAt('2026-06-03T11:59:59.999Z')).toBe(6)
  expect(await sumAt('2026-06-03T12:00:00.000Z')).toBe(4)
  expect(await sumAt('2026-06-03T12:59:59.999Z')).toBe(4)
  expect(await sumAt('2026-06-03T13:00:00.000Z')).toBe(0)
})

it('sweepPeriods: removes periods that are not kept any more, though not before they are over for a day', async () => {
  const target = await freshDatabase()
  let now = Date.parse('2026-06-01T12:00:00Z')
  const { counters } = openTestNth(target, { now: () => new Date(now) })
  for (const _ of upTo(3)) {
    await counters.incrementBy(key, 1)
    now += DAY_MS
  }
  await counters.define(key, { periods: [] })
  now -= DAY_MS
  const database = openTestDatabase(target)
  await sweep(database, new Date(now))
  expect(await startsIn(target, 'HOUR')).toEqual(['06-02 12', '06-03 12'])
  expect(await startsIn(target, 'MONTH')).toEqual(['06-01 00'])
  await sweep(database, new Date(now + 40 * DAY_MS))
  expect(await periodTotals(target)).toEqual([])
  expect(await counters.read(key)).toMatchObject({ value: 3 })
})

it('sweepPeriods: removes the subjects of past periods, and those of deleted counters', async () => {
  const target = await freshDatabase()
  let now = Date.parse('2026-06-01T12:00:00Z')
  const { counters } = openTestNth(target, { now: () => new Date(now) })
  await counters.countOnce({ ...key, name: 'once' }, 'ann')
  await counters.countOnce({ ...key, name: 'deleted' }, 'ann')
  await counters.delete({ ...key, name: 'deleted' })
  await counters.define(key, { oncePer: 'DAY' })
  for (const _ of upTo(4)) {
    await counters.countOnce(key, 'ann')
    now += DAY_MS
  }
  now -= DAY_MS
  await sweep(openTestDatabase(target), new Date(now))
  const starts = await query(
    target,
    'select from_unixtime(start) as start from counter_subject order by start',
  )
  // It is noon of the 4th. Days may have 25 hours and more.
  expect(starts.map(({ start }) => start.toISOString().slice(0, 10))).toEqual([
    '1970-01-01',
    '2026-06-03',
    '2026-06-04',
  ])
})

it('sweepPeriods: removes forgotten subjects, and never those that have counted since, whatever the clocks of the processes show', async () => {
  const target = await freshDatabase()
  const openAt = (at: string) => openTestNth(target, { now: () => new Date(at) }).counters
  // The database's clock is in between.
  const [behind, ahead] = [openAt('2001-06-01T12:00:00Z'), openAt('2095-06-01T12:00:00Z')]
  const database = openTestDatabase(target)
  const everybody = ['ann', 'bob', 'cid']
  const rowsAfterSweep = async () => {
    await sweep(database, new Date())
    return (await query(target, 'select count(*) as number from counter_subject'))[0]?.number
  }
  for (const [forgetting, other] of [
    [ahead, behind],
    [behind, ahead],
    [behind, behind],
  ] as const) {
    for (const subject of everybody) await forgetting.countOnce(key, subject)
    await other.countOnce(key, 'dan')
    await other.countOnce({ ...key, name: 'other' }, 'dan')
    await forgetting.reset(key, 0, {}, {}, true)
    await other.countOnce(key, 'ann')
    await forgetting.countOnce(key, 'bob')
    expect(await rowsAfterSweep()).toBe(3)
    for (const counters of [behind, ahead]) {
      expect(await counters.changeOf(key, 'ann')).toMatchObject({ value: 1 })
      expect(await counters.countOnce(key, 'bob')).toMatchObject({ value: 2, isAlreadyCounted: true })
    }
    await ahead.reset(key, 0, {}, {}, true)
    expect(await rowsAfterSweep()).toBe(1)
  }
})

it('sweepPeriods: keeps sums of the remaining rows right', async () => {
  const target = await freshDatabase()
  let now = Date.parse('2026-03-01T12:00:00Z')
  const { counters } = openTestNth(target, { now: () => new Date(now) })
  await counters.define(key, {
    periods: [{ period: 'HOUR', keepDays: 2 }, { period: 'DAY' }, { period: 'MONTH', keepDays: 40 }],
  })
  for (const _ of upTo(20)) {
    await counters.incrementBy(key, 1)
    now += 6 * DAY_MS
  }
  await sweep(openTestDatabase(target), new Date(now))
  const counter = await counters.read(key)
  // Four months, of which the older ones are known from days; and from these, as hours are gone, weeks and the year.
  for (const [period, last] of [
    ['MONTH', 5],
    ['WEEK', 20],
    ['YEAR', 1],
  ] as const) {
    const history = await counters.history(counter, period, { last })
    expect([period, history?.reduce((sum, { value }) => sum + value, 0)]).toEqual([period, 20])
  }
  expect(await startsIn(target, 'MONTH')).toEqual(['05-01 00', '06-01 00'])
})

it('sweepPeriods: removes the history of counters that are deleted', async () => {
  const target = await freshDatabase()
  let now = Date.parse('2026-06-01T12:00:00Z')
  const { counters } = openTestNth(target, { now: () => new Date(now) })
  const names = upTo(20).map((index) => ({ namespace: 'n', name: `c${index}` }))
  await Promise.all(names.map((name) => counters.incrementBy(name, 1)))
  now += DAY_MS
  await Promise.all(names.map((name) => counters.incrementBy(name, 1)))
  await Promise.all(names.slice(1).map((name) => counters.delete(name)))
  const rows = async (table: string) => (await query(target, `select count(*) as n from ${table}`))[0]?.n
  expect([await rows('counter_value'), await rows('counter_history')]).toEqual([1, 40])
  await sweep(openTestDatabase(target), new Date(now))
  expect([await rows('counter_history'), await rows('deleted_counter')]).toEqual([2, 0])
})

it('sweepPeriods: sweeps other counters beside one whose periods cannot be parsed', async () => {
  const target = await freshDatabase()
  let now = Date.parse('2026-06-01T12:00:00Z')
  const { counters } = openTestNth(target, { now: () => new Date(now) })
  await counters.define(key, { periods: [{ period: 'HOUR', keepDays: 2 }] })
  for (const _ of upTo(2)) {
    await counters.incrementBy({ ...key, name: 'broken' }, 1)
    await counters.incrementBy(key, 1)
    now += DAY_MS
  }
  await query(target, "update counter set periods = 'FORTNIGHT' where name = 'broken'")
  now += 10 * DAY_MS
  const failed = sweep(openTestDatabase(target), new Date(now))
  await expect(failed).rejects.toThrow('FORTNIGHT')
  const rows = 'select name, period from counter_history join counter on id = counter_id where period = 1'
  expect(await query(target, rows)).toEqual([{ name: Buffer.from('broken'), period: 1 }])
})

it('sweepPeriods: continues in batches while others count, without delaying them', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  await counters.define(key, { periods: [{ period: 'HOUR', keepDays: 1 }, { period: 'DAY' }], slots: 3 })
  await query(
    target,
    `insert into counter_history (counter_id, period, start, value)
     select 1, 1, ${Date.UTC(2020, 0, 1) / 1000} + 3600 * (a.n * 1000 + b.n), 1
       from (select 0 as n union all select 1 union all select 2) a,
            (with recursive numbers as (select 0 as n union all select n + 1 from numbers where n < 999) select n from numbers) b`,
  )
  const database = openTestDatabase(target)
  // Somebody holds one of them, so that it can't come to its end yet.
  const holder = await holdRows(
    target,
    `select * from counter_history where counter_id = 1 and period = 1 and start = ${Date.UTC(2020, 2, 1) / 1000} for update`,
  )
  let isSwept = false
  const swept = sweep(database, new Date()).then(() => {
    isSwept = true
  })
  const changes = await Promise.all(upTo(200).map(() => counters.incrementBy(key, 1)))
  expect(sorted(changes.map(({ value }) => value))).toEqual(upTo(200))
  expect(isSwept).toBe(false)
  await holder.rollback()
  await swept
  expect((await startsIn(target, 'HOUR')).length).toBeLessThanOrEqual(2)
})

it('sweepPeriods: stops between batches on request', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  await counters.incrementBy(key, 1)
  await counters.delete(key)
  await sweep(openTestDatabase(target), new Date(), () => false)
  expect(await query(target, 'select id from deleted_counter')).toEqual([{ id: 1 }])
})

it('scheduled jobs: run as soon as Nth is opened, unless they are switched off', async () => {
  const target = await freshDatabase()
  const { counters, sequences } = openTestNth(target)
  await counters.incrementBy(key, 1)
  await counters.delete(key)
  await sequences.define(key, {})
  await sequences.delete(key)
  const left = () => query(target, 'select id from deleted_counter union all select id from deleted_sequence')
  expect([await left(), await query(target, 'select name from scheduled_job')]).toEqual([
    [{ id: 1 }, { id: 1 }],
    [],
  ])
  const { faults } = openTestNth(target, { runsJobs: true })
  await expect.poll(left).toEqual([])
  expect(faults).toEqual([])
})

it('scheduled jobs: each runs in one of all processes when it is due', async () => {
  const target = await freshDatabase()
  const databases = upTo(3).map(() => openTestDatabase(target))
  const ask = () =>
    Promise.all(databases.map((database) => claimDue(database, [{ name: 'sweep', everyS: 3600 }])))
  expect((await ask()).filter((due) => due.has('sweep'))).toHaveLength(1)
  expect((await ask()).filter((due) => due.has('sweep'))).toHaveLength(0)
  await query(target, 'update scheduled_job set started_at = started_at - interval 1 hour')
  expect((await ask()).filter((due) => due.has('sweep'))).toHaveLength(1)
})
