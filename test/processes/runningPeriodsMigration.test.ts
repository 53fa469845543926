import { copyFile, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { createConnection } from 'mysql2/promise'
import { expect, it } from 'vitest'
import type { Target } from '../../src/mysql/settings.ts'
import { migrate } from '../../src/repository/migrate.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { periodTotals } from '../support/database/totals.ts'
import { openTestNth } from '../support/server/nth.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'

const MIGRATIONS = join(import.meta.dirname, '../../schema/migrations')
const MIGRATION = '0002_running_periods.sql'
const key = (name: string) => ({ namespace: 'n', name })
const withPeriodValues = { wantsPeriodValues: true }

/** A database before the migration, with the rows of three counters: their counter, period, start, slot and value. */
async function databaseBefore(): Promise<Target> {
  const target = await freshDatabase({ migrated: false })
  const folder = await temporaryDirectory()
  await copyFile(join(MIGRATIONS, '0001_tables.sql'), join(folder, '0001_tables.sql'))
  await migrate(target, pathToFileURL(`${folder}/`))
  await query(
    target,
    "insert into namespace (id, name) values (1, 'n')",
    `insert into counter (id, namespace_id, name, version, slots, periods)
     values (1, 1, 'plain', 5, 1, 'HOUR:90,DAY,MONTH'), (2, 1, 'slots', 6, 2, 'HOUR,DAY'), (3, 1, 'days', 7, 1, 'DAY')`,
    `insert into counter_value (counter_id, version, created_at, revision, period, starts_at, slot, value)
     values (1, 5, '2026-11-19', 9, 0, '1970-01-01', 0, 10), (2, 6, '2026-11-19', 4, 0, '1970-01-01', 0, 5),
            (2, 6, null, 3, 0, '1970-01-01', 1, 2), (3, 7, '2026-11-19', 2, 0, '1970-01-01', 0, 1)`,
    `insert into counter_value (counter_id, version, period, starts_at, slot, value)
     values (1, 0, 1, '2026-11-19 08:00', 0, 1), (1, 0, 1, '2026-11-20 10:00', 0, 2), (1, 0, 1, '2026-11-20 11:00', 0, 7),
            (1, 0, 2, '2026-11-19 00:00', 0, 1), (1, 0, 2, '2026-11-20 00:00', 0, 9), (1, 0, 4, '2026-11-01 00:00', 0, 10),
            (2, 0, 1, '2026-11-20 10:00', 0, 1), (2, 0, 1, '2026-11-20 10:00', 1, 2), (2, 0, 1, '2026-11-20 11:00', 0, 4),
            (2, 0, 2, '2026-11-20 00:00', 0, 5), (2, 0, 2, '2026-11-20 00:00', 1, 2),
            (3, 0, 1, '2026-11-20 11:00', 0, 1), (3, 0, 2, '2026-11-20 00:00', 0, 1)`,
  )
  return target
}

async function tablesOf(target: Target) {
  const values = await query(target, 'select * from counter_value order by counter_id, slot')
  const history = await query(target, 'select * from counter_history order by counter_id, period, start')
  return { values, history }
}

it('migration 0002: carries values and totals over, the latest of each tracked period into the columns', async () => {
  const target = await databaseBefore()
  await migrate(target)
  const { values, history } = await tablesOf(target)
  const second = (time: string) => Date.parse(`2026-11-${time}Z`) / 1000
  expect(values).toMatchObject([
    {
      value: 10,
      version: 5,
      revision: 9,
      hour_start: second('20T11:00'),
      hour_added: 7,
      day_added: 9,
      week_start: null,
    },
    { value: 5, slot: 0, revision: 4, hour_start: second('20T11:00'), hour_added: 4, day_added: 5 },
    { value: 2, slot: 1, revision: 3, hour_start: second('20T10:00'), hour_added: 2, day_added: 2 },
    { value: 1, hour_start: null, hour_added: null, day_start: second('20T00:00'), day_added: 1 },
  ])
  expect(history.map(({ counter_id, period, start, value }) => [counter_id, period, start, value])).toEqual([
    [1, 1, second('19T08:00'), 1],
    [1, 1, second('20T10:00'), 2],
    [1, 2, second('19T00:00'), 1],
    [2, 1, second('20T10:00'), 1],
    [3, 1, second('20T11:00'), 1],
  ])
})

it('migration 0002: counts on from there, in the same periods', async () => {
  const target = await databaseBefore()
  await migrate(target)
  const { counters } = openTestNth(target, { now: () => new Date('2026-11-20T11:30:00Z') })
  const add = async (name: string) => {
    const { value, valuesIn } = await counters.incrementBy(key(name), 100, withPeriodValues)
    return [value, valuesIn]
  }
  expect(await add('plain')).toEqual([110, { HOUR: 107, DAY: 109, MONTH: 110 }])
  expect(await add('slots')).toEqual([107, { HOUR: 104, DAY: 107 }])
  expect(await add('days')).toEqual([101, { DAY: 101 }])
  const hours = await counters.history(await counters.read(key('slots')), 'HOUR', { last: 2 })
  expect(hours?.map(({ value }) => value)).toEqual([3, 104])
})

it('migration 0002: has the same result wherever it is interrupted', async () => {
  const statements = (await readFile(join(MIGRATIONS, MIGRATION), 'utf8')).split(/;$/m).slice(0, -1)
  const whole = await databaseBefore()
  await migrate(whole)
  const expected = { ...(await tablesOf(whole)), totals: await periodTotals(whole) }
  for (const [index] of statements.entries()) {
    const target = await databaseBefore()
    const connection = await createConnection(target)
    for (const statement of statements.slice(0, index + 1)) await connection.query(statement)
    await connection.end()
    expect((await migrate(target))[0]).toEqual(MIGRATION)
    expect([index, { ...(await tablesOf(target)), totals: await periodTotals(target) }]).toEqual([
      index,
      expected,
    ])
  }
})
