import { readdir, readFile } from 'node:fs/promises'
import type { Connection } from 'mysql2/promise'
import { ER, hasErrorNumber } from '../connections/errors.ts'
import type { Target } from '../connections/target.ts'
import { bytes } from '../literals.ts'
import { select } from '../select.ts'
import { openMigrationSession, withMigrationLock } from './migrationLock.ts'

const MIGRATIONS = new URL('../../../schema/migrations/', import.meta.url)

/**
 * Migrates a database to this version: applies each new file of `schema/migrations`, in order. Any number of processes
 * may start at once; one migrates, the others wait for it.
 *
 * DDL commits implicitly, so each statement must be repeatable: a process may end between a statement and the record of
 * its file. That also helps on a cluster, where the lock holds on one node only.
 *
 * @returns the names of the files that were applied
 * @throws {Error} before anything is changed, if the database has a migration that is not among the files
 */
export async function migrate(target: Target, folder = MIGRATIONS): Promise<string[]> {
  const migrations = await migrationsIn(folder)
  const connection = await openMigrationSession(target)
  try {
    const known = await knownIn(connection, migrations, target)
    // Then the user needs no right to create tables.
    if (known.length === migrations.length) return []
    return await withMigrationLock(target, async () => {
      await connection.query(
        `create table if not exists migration (
           name varbinary(255) not null,
           applied_at datetime not null,
           primary key (name)
         ) engine = InnoDB`,
      )
      const applied = new Set(await appliedTo(connection))
      const missing = migrations.filter((name) => !applied.has(name))
      for (const name of missing) await apply(connection, name, await readFile(new URL(name, folder), 'utf8'))
      return missing
    })
  } finally {
    await connection.end()
  }
}

/** The names of the files that `migrate` would apply. It throws the same error. */
export async function missingMigrations(target: Target, folder = MIGRATIONS): Promise<string[]> {
  const migrations = await migrationsIn(folder)
  const connection = await openMigrationSession(target)
  try {
    const known = await knownIn(connection, migrations, target)
    return migrations.filter((name) => !known.includes(name))
  } finally {
    await connection.end()
  }
}

async function migrationsIn(folder: URL): Promise<string[]> {
  return (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()
}

/** Those that a database has, which must be among the files. */
async function knownIn(connection: Connection, migrations: readonly string[], { database }: Target) {
  const known = await appliedTo(connection)
  const unknown = known.find((name) => !migrations.includes(name))
  if (unknown === undefined) return known
  throw new Error(
    `The database ${database} was created by another version of Nth: this one doesn't have its migration ${unknown}. Nothing was changed. Start that version, or set DATABASE_URL or NTH_DATA_DIR to a new database.`,
  )
}

async function appliedTo(connection: Connection): Promise<string[]> {
  const statement = 'select name from migration order by name'
  const rows = await select<{ name: Buffer }>(connection, statement).catch((error) => {
    if (hasErrorNumber(error, ER.NO_SUCH_TABLE)) return []
    throw error
  })
  return rows.map(({ name }) => name.toString())
}

/** Applies a file. Each of its statements ends with a semicolon at the end of a line. */
async function apply(connection: Connection, name: string, text: string): Promise<void> {
  for (const statement of text.split(/;$/m)) if (statement.trim() !== '') await connection.query(statement)
  await connection.query(
    `insert ignore into migration (name, applied_at) values (${bytes(name)}, utc_timestamp())`,
  )
}
