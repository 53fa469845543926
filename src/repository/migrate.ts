import { readdir, readFile } from 'node:fs/promises'
import type { Connection } from '../mysql/connection.ts'
import { ER, hasErrorNumber } from '../mysql/errors.ts'
import { explain } from '../mysql/ready.ts'
import { openConnection, type Target } from '../mysql/settings.ts'
import { bytes, integer } from '../mysql/sql.ts'

const MIGRATIONS = new URL('../../schema/migrations/', import.meta.url)

/**
 * The table that records a file. A server refuses a database whose table `migration` names a file that it doesn't have.
 * Expansions have a table of their own because 0.2.0, which can't be changed, doesn't read it: with a column in
 * `migration`, only later versions could start again after an upgrade was taken back.
 */
const TABLES = { contraction: 'migration', expansion: 'expansion' } as const

const ATTEMPTS = 20
/** How long a starting process waits for another that is migrating, in seconds. */
const LOCK_WAIT_S = 60
/** How long the session that holds the lock may be idle: as long as a statement of a migration may take. */
const IDLE_LIMIT_S = 7 * 86_400

/** A file of `schema/migrations`. */
interface Migration {
  name: string
  /** Each statement of the migration ends with a semicolon at the end of a line. */
  text: string
  /** Servers of older versions work beside an expansion, and can start on it. A contraction breaks them. */
  kind: keyof typeof TABLES
  /** The version before which a contraction breaks servers; contractions of the first release name none. */
  oldest: string | undefined
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
  return withSession(target, async (connection) => {
    const { missing } = await compare(connection, migrations, target)
    // Then the user needs no right to create tables.
    if (missing.length === 0) return []
    return withMigrationLock(target, () => applyMissing(connection, migrations, target))
  }).catch(explain)
}

/** Applies a file again: to what was restored since, as an earlier version has exported it. */
export async function migrateAgain(target: Target, name: string): Promise<void> {
  const migrations = (await readMigrations(MIGRATIONS)).filter((migration) => migration.name === name)
  await withSession(target, async (connection) => {
    for (const migration of migrations) await apply(connection, migration)
  })
}

/** What `migrate` would apply. It throws the same error. */
export async function compareMigrations(target: Target) {
  const migrations = await readMigrations(MIGRATIONS)
  return withSession(target, (connection) => compare(connection, migrations, target))
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

async function compare(connection: Connection, migrations: readonly Migration[], { database }: Target) {
  const contractions = await recordedIn(connection, TABLES.contraction)
  const expansions = await recordedIn(connection, TABLES.expansion)
  const files = new Set(migrations.map(({ name }) => name))
  const unknown = contractions.find((name) => !files.has(name))
  if (unknown !== undefined) {
    // Names of files begin with their numbers. Before 0.2.0 there were others, and no command that exports.
    const isLater = unknown > (migrations.at(-1)?.name ?? '')
    const version = isLater ? 'a later version of Nth' : 'Nth before 0.2.0'
    const todo = isLater
      ? 'Start that version again, or copy everything: nth export with that version, then nth restore of its file with this one, with DATABASE_URL or NTH_DATA_DIR set to a new database.'
      : 'To copy its numbers, set DATABASE_URL or NTH_DATA_DIR to a new database, and follow CHANGELOG.md, "Before 0.2.0".'
    throw new Error(
      `The database ${database} is one of ${version}: this one doesn't have its migration ${unknown}. Nothing was changed. ${todo}`,
    )
  }
  const recorded = new Set([...contractions, ...expansions])
  return {
    /** The database has no migration yet, and so no servers that a migration could break. */
    isNew: recorded.size === 0,
    /** The files that the database lacks. */
    missing: migrations.filter(({ name }) => !recorded.has(name)),
    /** Expansions of later versions, beside which this one works. */
    later: expansions.filter((name) => !files.has(name)),
  }
}

/** The names of files in a table; none before it was created. A database of 0.2.0 has no table `expansion`. */
async function recordedIn(connection: Connection, table: string): Promise<string[]> {
  const reading = connection.select<{ name: Buffer }>(`select name from ${table} order by name`)
  return (await reading.catch(noneWithoutTable)).map(({ name }) => name.toString())
}

/** For a read of a table that older databases don't have. */
export function noneWithoutTable(error: unknown): [] {
  if (hasErrorNumber(error, ER.NO_SUCH_TABLE)) return []
  throw error
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

/** The files of a folder, in the order in which they are applied. The first line of each states its kind. */
export async function readMigrations(folder: URL): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(new URL(name, folder), 'utf8')
      const [firstLine = ''] = text.split('\n', 1)
      // Without a statement it is a contraction, which is the safe one.
      const kind = firstLine === '-- expands' ? 'expansion' : 'contraction'
      const [, oldest] = /^-- contracts, needs (\d+\.\d+\.\d+)$/.exec(firstLine) ?? []
      return { name, text, kind, oldest }
    }),
  )
}

/**
 * Runs work while no other process runs such work on the same database.
 *
 * The lock is a row lock held by a transaction, as clusters deny GET_LOCK. It has its own connection, because DDL
 * commits the transaction of its connection; the server releases it when that connection ends, for whatever reason. On
 * Galera a row is locked on one node only.
 *
 * @throws {Error} if another process holds it for too long
 */
export async function withMigrationLock<T>(target: Target, work: () => Promise<T>): Promise<T> {
  // A lost lock doesn't stop the work, which may then overlap with another's. The end of the session rolls back, which
  // releases the row.
  return withSession(target, async (holder) => {
    await lock(holder)
    return work()
  })
}

/** Runs work in a session that doesn't depend on the server's settings. */
export async function withSession<T>(
  target: Target,
  work: (connection: Connection) => Promise<T>,
): Promise<T> {
  const connection = await openConnection(target, { lockWaitS: LOCK_WAIT_S })
  try {
    await connection.query(
      // Only MariaDB reads what follows M!, and only it has these limits.
      `set session
         wait_timeout = ${integer(IDLE_LIMIT_S)}
         /*M! , max_statement_time = 0, idle_transaction_timeout = 0, idle_write_transaction_timeout = 0 */`,
    )
    return await work(connection)
  } finally {
    await connection.end()
  }
}

async function lock(holder: Connection): Promise<void> {
  // No DDL unless needed: a cluster aborts transactions that conflict with it, such as the one that holds the lock.
  const tables = await holder.select("show tables like 'migration_lock'")
  if (tables.length === 0) {
    await holder.query(
      `create table if not exists migration_lock (
         id tinyint unsigned not null,
         primary key (id)
       ) engine = InnoDB`,
    )
  }
  while (true) {
    await holder.query('start transaction')
    const locking = holder.select('select id from migration_lock where id = 1 for update')
    const rows = await locking.catch((cause) => {
      if (!hasErrorNumber(cause, ER.LOCK_WAIT_TIMEOUT)) throw cause
      const text = `Another process has been migrating the database for more than ${LOCK_WAIT_S} seconds.`
      throw new Error(text, { cause })
    })
    if (rows.length > 0) return
    await holder.query('rollback')
    // Committed before it is locked: processes that wait for a row whose insert is rolled back run into deadlocks.
    await holder.query('insert ignore into migration_lock (id) values (1)')
  }
}
