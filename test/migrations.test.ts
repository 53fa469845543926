import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { migrate } from '../src/mysql/migrate.ts'
import type { Target } from '../src/mysql/target.ts'
import { freshDatabase, query } from './support/database.ts'

const SCHEMA = join(import.meta.dirname, '../schema')

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
