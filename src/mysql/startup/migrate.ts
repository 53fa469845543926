import type { Connection } from 'mysql2/promise'
import { ER, hasErrorNumber } from '../connections/errors.ts'
import type { Target } from '../connections/target.ts'
import { bytes } from '../literals.ts'
import { select } from '../select.ts'
import { type Migration, readMigrations } from './migrationFiles.ts'
import { openMigrationSession, withMigrationLock } from './migrationLock.ts'
import { explain } from './ready.ts'

const MIGRATIONS = new URL('../../../schema/migrations/', import.meta.url)

/**
 * The table that records a file. A server refuses a database whose table `migration` names a file that it doesn't have.
 * Expansions have a table of their own because 0.2.0, which can't be changed, doesn't read it: with a column in
 * `migration`, only later versions could start again after an upgrade was taken back.
 */
const TABLES = { contraction: 'migration', expansion: 'expansion' } as const

const ATTEMPTS = 20

export interface Comparison {
  /** It has no migration yet, and so no servers that one could break. */
  isNew: boolean
  /** The files that a database lacks. */
  missing: Migration[]
  /** Expansions of later versions, beside which this one works. */
  later: string[]
}

/**
 * Migrates a database to this version: applies each new file of `schema/migrations`, in order. Any number of processes
 * may start at once; one migrates, the others wait for it.
 *
 * DDL commits implicitly, so each statement must be repeatable: a process may end between a statement and the record of
 * its file. That also helps on a cluster, where the lock holds on one node only.
 *
 * @returns the names of the files that were applied
 * @throws {Error} before anything is changed, if the database has a contraction that is not among the files; or if the
 *   database refuses a statement, with what to do
 */
export async function migrate(target: Target, folder = MIGRATIONS): Promise<string[]> {
  const migrations = await readMigrations(folder)
  const connection = await openMigrationSession(target).catch(explain)
  try {
    const { missing } = await compare(connection, migrations, target)
    // Then the user needs no right to create tables.
    if (missing.length === 0) return []
    return await withMigrationLock(target, () => applyMissing(connection, migrations, target))
  } catch (error) {
    return explain(error)
  } finally {
    await connection.end()
  }
}

/** What `migrate` would apply. It throws the same error. */
export async function compareMigrations(target: Target, folder = MIGRATIONS): Promise<Comparison> {
  const migrations = await readMigrations(folder)
  const connection = await openMigrationSession(target)
  try {
    return await compare(connection, migrations, target)
  } finally {
    await connection.end()
  }
}

async function applyMissing(connection: Connection, migrations: readonly Migration[], target: Target) {
  // Again: the process that this one waited for has migrated, perhaps to a later version.
  const { missing } = await compare(connection, migrations, target)
  if (missing.length === 0) return []
  for (const table of Object.values(TABLES)) {
    await connection.query(
      `create table if not exists ${table} (
         name varbinary(255) not null,
         applied_at datetime not null,
         primary key (name)
       ) engine = InnoDB`,
    )
  }
  for (const migration of missing) await apply(connection, migration)
  return missing.map(({ name }) => name)
}

async function compare(
  connection: Connection,
  migrations: readonly Migration[],
  { database }: Target,
): Promise<Comparison> {
  const contractions = await recordedIn(connection, TABLES.contraction)
  const expansions = await recordedIn(connection, TABLES.expansion)
  const files = new Set(migrations.map(({ name }) => name))
  const unknown = contractions.find((name) => !files.has(name))
  if (unknown !== undefined) {
    // Names of files begin with their numbers. Before 0.2.0 there were others, and no command that exports.
    const isLater = unknown > (migrations.at(-1)?.name ?? '')
    const version = isLater ? 'a later version of Nth' : 'Nth before 0.2.0'
    const todo = isLater
      ? 'Start that version again, or copy everything: nth export with that version, then nth import with this one, with DATABASE_URL or NTH_DATA_DIR set to a new database.'
      : 'To copy its numbers, set DATABASE_URL or NTH_DATA_DIR to a new database, and follow docs/operations.md, "Before 0.2.0".'
    throw new Error(
      `The database ${database} is one of ${version}: this one doesn't have its migration ${unknown}. Nothing was changed. ${todo}`,
    )
  }
  const recorded = new Set([...contractions, ...expansions])
  return {
    isNew: recorded.size === 0,
    missing: migrations.filter(({ name }) => !recorded.has(name)),
    later: expansions.filter((name) => !files.has(name)),
  }
}

/** The names of files in a table; none before it was created. A database of 0.2.0 has no table `expansion`. */
async function recordedIn(connection: Connection, table: string): Promise<string[]> {
  const rows = await select<{ name: Buffer }>(connection, `select name from ${table} order by name`).catch(
    (error) => {
      if (hasErrorNumber(error, ER.NO_SUCH_TABLE)) return []
      throw error
    },
  )
  return rows.map(({ name }) => name.toString())
}

async function apply(connection: Connection, { name, text, kind }: Migration): Promise<void> {
  for (const statement of text.split(/;$/m)) if (statement.trim() !== '') await run(connection, statement)
  await connection.query(
    `insert ignore into ${TABLES[kind]} (name, applied_at) values (${bytes(name)}, utc_timestamp())`,
  )
}

/**
 * Runs a statement, again if it fails with a duplicate key: MySQL changes a table while others use it, and the statement
 * then fails as a whole if one of them tried to insert a row that existed. Creating a new name does that.
 */
async function run(connection: Connection, statement: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await connection.query(statement)
      return
    } catch (error) {
      if (attempt === ATTEMPTS || !hasErrorNumber(error, ER.DUP_ENTRY)) throw error
    }
  }
}
