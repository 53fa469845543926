import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createConnection } from 'mysql2/promise'
import { expect, it, onTestFinished } from 'vitest'
import { migrate } from '../src/mysql/migrate.ts'
import type { Target } from '../src/mysql/target.ts'
import { freshDatabase, query, urlOf } from './support/database.ts'
import { spawnNth, temporaryDirectory } from './support/nthProcess.ts'
import { PATIENCE, privateServerWith } from './support/privateServer.ts'
import { startProxy } from './support/proxy.ts'

const SCHEMA = join(import.meta.dirname, '../schema')

/** Makes a database one that lacks a migration, whose statement waits for those who read the table `namespace`. */
const UNDO = [
  'alter table namespace drop column time_zone, drop column periods',
  "delete from migration where name like '0011%'",
]

async function tablesOf(target: Target): Promise<Record<string, string>> {
  const rows = await query(target, 'show tables')
  const names = rows.map((row) => String(Object.values(row)[0])).toSorted()
  const entries = names.map(async (name) => {
    const [row] = await query(target, `show create table ${name}`)
    return [name, String(row?.['Create Table'])] as const
  })
  return Object.fromEntries(await Promise.all(entries))
}

it('applies every migration once, however many processes start at the same time', async () => {
  const target = await freshDatabase({ migrated: false })
  const applied = await Promise.all(Array.from({ length: 8 }, () => migrate(target)))
  const files = (await readdir(join(SCHEMA, 'migrations'))).toSorted()
  expect(applied.flat().toSorted()).toEqual(files)
  expect(await migrate(target)).toEqual([])
})

it('goes on after a process that ended between a migration and the note of it', async () => {
  const target = await freshDatabase()
  const tables = await tablesOf(target)
  await query(target, 'delete from migration')
  await migrate(target)
  expect(await tablesOf(target)).toEqual(tables)
})

it('leads to the tables that schema/tables.sql shows', async () => {
  const migrated = await freshDatabase()
  const dumped = await freshDatabase({ migrated: false })
  const text = await readFile(join(SCHEMA, 'tables.sql'), 'utf8')
  await query(dumped, ...statementsOf(text))
  expect(await tablesOf(dumped)).toEqual(await tablesOf(migrated))
})

/** The statements of a file; its comments may hold semicolons. */
function statementsOf(text: string): string[] {
  const statements = text.replace(/--.*/g, '').split(';')
  return statements.filter((statement) => statement.trim() !== '')
}

it('numbers its files without gaps, one statement each', async () => {
  const files = (await readdir(join(SCHEMA, 'migrations'))).toSorted()
  expect(files.map((name) => Number(name.slice(0, 4)))).toEqual(files.map((_, index) => index + 1))
  for (const name of files) {
    const text = await readFile(join(SCHEMA, 'migrations', name), 'utf8')
    expect(text.replace(/--.*/g, '')).not.toContain(';')
  }
})

it('migrates on a cluster that denies GET_LOCK', async () => {
  const target = await freshDatabase({ migrated: false })
  const refusing = await startProxy(target, (statement) =>
    /get_lock/i.test(statement) ? { errno: 1105 } : 'passes',
  )
  expect((await migrate(refusing)).length).toBeGreaterThan(0)
  expect(await migrate(target)).toEqual([])
})

it('waits for the process that migrates, and goes on when that one is killed', async () => {
  const target = await freshDatabase()
  await query(target, ...UNDO)
  const reader = await createConnection(target)
  onTestFinished(() => reader.end())
  await reader.query('start transaction')
  await reader.query('select * from namespace')
  const count = async (state: string) => {
    const [row] = await query(
      target,
      `select count(*) as n from information_schema.processlist where db = '${target.database}' and ${state}`,
    )
    return Number(row?.n)
  }
  const migrating = () => count("state like 'Waiting for table metadata lock%'")
  const first = spawnNth({ DATABASE_URL: urlOf(target) })
  await expect.poll(migrating, PATIENCE).toBe(1)

  const second = migrate(target)
  await expect.poll(() => count("info like 'select id from migration_lock%'"), PATIENCE).toBe(1)
  expect(await migrating()).toBe(1)
  first.child.kill('SIGKILL')
  await first.exited
  // It has the lock, and is at the first one's statement.
  await expect.poll(() => count("info like 'select id from migration_lock%'"), PATIENCE).toBe(0)
  await expect.poll(migrating, PATIENCE).toBeGreaterThanOrEqual(1)
  await reader.rollback()
  expect(await second).toEqual([expect.stringMatching(/^0011/)])
})

it('needs no setting of the server: neither autocommit nor a long patience with idle sessions', async () => {
  const server = await privateServerWith(await temporaryDirectory(), ['--autocommit=0', '--wait-timeout=1'])
  const target = { ...server, database: 'nth' }
  await query({ ...target, database: 'mysql' }, 'create database nth')
  const files = await readdir(join(SCHEMA, 'migrations'))
  expect(await migrate(target)).toHaveLength(files.length)
  expect(await migrate(target)).toEqual([])

  await query(target, ...UNDO, 'commit')
  const reader = await createConnection(target)
  onTestFinished(() => reader.end())
  await reader.query('set session wait_timeout = 1000')
  await reader.query('start transaction')
  await reader.query('select * from namespace')
  const migrated = migrate(target)
  const idle = `select max(time) as s from information_schema.processlist
                 where command = 'Sleep' and id != ${reader.threadId}`
  await expect.poll(async () => Number((await query(target, idle))[0]?.s), PATIENCE).toBeGreaterThan(2)
  await reader.rollback()
  expect(await migrated).toEqual([expect.stringMatching(/^0011/)])
})
