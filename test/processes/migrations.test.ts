import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { createConnection } from 'mysql2/promise'
import { expect, it, onTestFinished } from 'vitest'
import type { Target } from '../../src/mysql/settings.ts'
import { compareMigrations, migrate, withMigrationLock } from '../../src/repository/migrate.ts'
import { freshDatabase, query, urlOf } from '../support/database/database.ts'
import { privateServerWith } from '../support/database/privateServer.ts'
import { startProxy } from '../support/database/proxy.ts'
import { spawnNth, temporaryDirectory } from '../support/server/nthProcess.ts'

const ROOT = join(import.meta.dirname, '../..')
const MIGRATIONS = join(ROOT, 'schema/migrations')

/** Its statement waits for those who read the table `namespace`. */
const ONE_MORE = "alter table namespace comment = 'one; more';\n"

/** A folder with one more migration. */
async function folderWithOneMore(text = ONE_MORE): Promise<URL> {
  const folder = await temporaryDirectory()
  const names = await readdir(MIGRATIONS)
  for (const name of names) await copyFile(join(MIGRATIONS, name), join(folder, name))
  await writeFile(join(folder, '9999_more.sql'), text)
  return pathToFileURL(`${folder}/`)
}

/** Migrates a database in a process of its own, which is ended by force when the test has finished. */
function spawnMigration(target: Target, folder: URL) {
  const script = `import { compareMigrations, migrate } from './dist/repository/migrate.js'
    await migrate(${JSON.stringify(target)}, new URL(${JSON.stringify(folder)}))`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], { cwd: ROOT })
  const ended = once(child, 'close')
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return { child, ended }
}

async function tablesOf(target: Target): Promise<Record<string, string>> {
  const rows = await query(target, 'show tables')
  const names = rows.map((row) => String(Object.values(row)[0])).toSorted()
  const entries = names.map(async (name) => {
    const [row] = await query(target, `show create table ${name}`)
    return [name, String(row?.['Create Table'])] as const
  })
  return Object.fromEntries(await Promise.all(entries))
}

it('migrations: applies every migration once, however many processes start at the same time', async () => {
  const target = await freshDatabase({ migrated: false })
  const applied = await Promise.all(Array.from({ length: 8 }, () => migrate(target)))
  const files = (await readdir(MIGRATIONS)).toSorted()
  expect(applied.flat().toSorted()).toEqual(files)
  expect(await migrate(target)).toEqual([])
})

it('migrations: continues after a process that ended between a migration and its record', async () => {
  const target = await freshDatabase()
  const tables = await tablesOf(target)
  await query(target, 'delete from migration')
  await migrate(target)
  expect(await tablesOf(target)).toEqual(tables)
})

it('migrations: numbers its files without gaps', async () => {
  const files = (await readdir(MIGRATIONS)).toSorted()
  expect(files.map((name) => Number(name.slice(0, 4)))).toEqual(files.map((_, index) => index + 1))
})

it('migrations: refuses a database with a migration that it does not have, and changes nothing', async () => {
  const target = await freshDatabase({ migrated: false })
  await query(
    target,
    'create table migration (name varbinary(255) not null primary key, applied_at datetime not null)',
    "insert into migration values ('0001_namespace.sql', now())",
  )
  const tables = await tablesOf(target)
  await expect(migrate(target)).rejects.toThrow(
    /doesn't have its migration 0001_namespace.sql. Nothing was changed/,
  )
  expect(await tablesOf(target)).toEqual(tables)
  const { exited, errors } = spawnNth({ DATABASE_URL: urlOf(target) })
  expect(await exited).toBe(1)
  expect(errors().trim().split('\n')).toEqual([
    expect.stringContaining('follow CHANGELOG.md, "Before 0.2.0"'),
  ])
})

it('migrations: works beside an expansion of a later version, and a later version applies it once', async () => {
  const target = await freshDatabase()
  const folder = await folderWithOneMore(`-- expands\n${ONE_MORE}`)
  const applied = await Promise.all(Array.from({ length: 4 }, () => migrate(target, folder)))
  expect(applied.flat()).toEqual(['9999_more.sql'])
  const tables = await tablesOf(target)
  expect(await migrate(target)).toEqual([])
  expect(await migrate(target, folder)).toEqual([])
  expect(await tablesOf(target)).toEqual(tables)
  expect(await query(target, 'select name from migration')).toHaveLength(4)
  expect(await compareMigrations(target)).toEqual({ isNew: false, missing: [], later: ['9999_more.sql'] })
})

it('migrations: continues after a process that ended between an expansion and its record', async () => {
  const target = await freshDatabase()
  const folder = await folderWithOneMore(`-- expands\n${ONE_MORE}`)
  await migrate(target, folder)
  await query(target, "delete from expansion where name = '9999_more.sql'")
  expect(await migrate(target, folder)).toEqual(['9999_more.sql'])
})

it('migrations: refuses a database that a later version has contracted while it waited', async () => {
  const target = await freshDatabase({ migrated: false })
  const connections = `select id from information_schema.processlist
                        where db = '${target.database}' and info like 'select id from migration_lock%'`
  let waiting: Promise<unknown> | undefined
  await withMigrationLock(target, async () => {
    waiting = migrate(target).catch(String)
    await expect.poll(() => query(target, connections)).toHaveLength(1)
    await query(
      target,
      'create table migration (name varbinary(255) not null primary key, applied_at datetime not null)',
      "insert into migration values ('9999_more.sql', now())",
    )
  })
  expect(await waiting).toMatch(
    /of a later version .* migration 9999_more.sql. Nothing was changed. .* nth export with that version/,
  )
  expect(Object.keys(await tablesOf(target))).toEqual(['migration', 'migration_lock'])
})

it('migrations: migrates on a cluster that denies GET_LOCK', async () => {
  const target = await freshDatabase({ migrated: false })
  const refusing = await startProxy(target, (statement) =>
    /get_lock/i.test(statement) ? { errno: 1105 } : 'passes',
  )
  expect((await migrate(refusing)).length).toBeGreaterThan(0)
  expect(await migrate(target)).toEqual([])
})

it('migrations: waits for the process that migrates, and goes on when that one is killed', async () => {
  const target = await freshDatabase()
  const folder = await folderWithOneMore()
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
  const first = spawnMigration(target, folder)
  await expect.poll(migrating).toBe(1)

  const second = migrate(target, folder)
  await expect.poll(() => count("info like 'select id from migration_lock%'")).toBe(1)
  expect(await migrating()).toBe(1)
  first.child.kill('SIGKILL')
  await first.ended
  // It has the lock, and is at the first one's statement.
  await expect.poll(() => count("info like 'select id from migration_lock%'")).toBe(0)
  await expect.poll(migrating).toBeGreaterThanOrEqual(1)
  await reader.rollback()
  expect(await second).toEqual(['9999_more.sql'])
})

it('needs no setting of the server: neither autocommit nor a long patience with idle sessions', {
  tags: 'slow',
}, async () => {
  const server = await privateServerWith(await temporaryDirectory(), ['--autocommit=0', '--wait-timeout=1'])
  const target = { ...server, database: 'nth' }
  const files = await readdir(MIGRATIONS)
  expect(await migrate(target)).toHaveLength(files.length)
  expect(await migrate(target)).toEqual([])

  const folder = await folderWithOneMore()
  const reader = await createConnection(target)
  onTestFinished(() => reader.end())
  await reader.query('set session wait_timeout = 1000')
  await reader.query('start transaction')
  await reader.query('select * from namespace')
  const migrated = migrate(target, folder)
  const idle = `select max(time) as s from information_schema.processlist
                 where command = 'Sleep' and id != ${reader.threadId}`
  await expect.poll(async () => Number((await query(target, idle))[0]?.s)).toBeGreaterThan(2)
  await reader.rollback()
  expect(await migrated).toEqual(['9999_more.sql'])
})
