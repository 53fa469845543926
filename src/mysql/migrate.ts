import { readdir, readFile } from 'node:fs/promises'
import type { RowDataPacket } from 'mysql2'
import type { Connection } from 'mysql2/promise'
import { Umzug } from 'umzug'
import { ER, hasErrorNumber } from './errors.ts'
import { bytes } from './literals.ts'
import { openMigrationSession, withMigrationLock } from './migrationLock.ts'
import type { Target } from './target.ts'

const MIGRATIONS = new URL('../../schema/migrations/', import.meta.url)

/**
 * Migrates a database to this version: applies each new file of `schema/migrations`, in order. Any number of processes
 * may start at once; one migrates, the others wait for it.
 *
 * DDL commits implicitly, so each file has one statement, which may run again: a process may end between a statement
 * and the record of it. That also helps on a cluster, where the lock holds on one node only.
 *
 * @returns the names of the files that were applied
 */
export async function migrate(target: Target): Promise<string[]> {
  const migrations = await readMigrations()
  return withMigrationLock(target, async () => {
    const connection = await openMigrationSession(target)
    try {
      await connection.query(
        `create table if not exists migration (
           name varbinary(255) not null,
           applied_at datetime not null,
           primary key (name)
         ) engine = InnoDB`,
      )
      const applied = await migrator(connection, migrations).up()
      return applied.map(({ name }) => name)
    } finally {
      await connection.end()
    }
  })
}

async function readMigrations(): Promise<{ name: string; statement: string }[]> {
  const names = (await readdir(MIGRATIONS)).filter((name) => name.endsWith('.sql')).sort()
  return Promise.all(
    names.map(async (name) => ({ name, statement: await readFile(new URL(name, MIGRATIONS), 'utf8') })),
  )
}

function migrator(connection: Connection, migrations: { name: string; statement: string }[]) {
  return new Umzug({
    migrations: migrations.map(({ name, statement }) => ({
      name,
      up: () => connection.query(statement).catch(unlessDone),
    })),
    storage: {
      async executed() {
        const [rows] = await connection.query<RowDataPacket[]>('select name from migration order by name')
        return rows.map((row) => row.name.toString('utf8'))
      },
      async logMigration({ name }) {
        await connection.query(
          `insert ignore into migration (name, applied_at) values (${bytes(name)}, utc_timestamp())`,
        )
      },
      async unlogMigration() {
        throw new Error('Migrations are forward-only')
      },
    },
    logger: undefined,
  })
}

/** MySQL can't add a column only if it is missing, or drop one only if it exists. */
function unlessDone(error: unknown): void {
  const isDone = [ER.DUP_FIELDNAME, ER.CANT_DROP_FIELD_OR_KEY].some((errno) => hasErrorNumber(error, errno))
  if (!isDone) throw error
}
