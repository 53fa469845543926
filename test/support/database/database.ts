import { randomBytes } from 'node:crypto'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { inject } from 'vitest'
import { Hosts } from '../../../src/mysql/hosts.ts'
import { Database } from '../../../src/mysql/pool.ts'
import type { Target } from '../../../src/mysql/settings.ts'
import { REVISION_OF_NOW } from '../../../src/mysql/sql.ts'
import { migrate } from '../../../src/repository/migrate.ts'
import { onFinished } from '../openOnce.ts'
import { AMPLE_MS } from '../server/nth.ts'

/** What the server answers when the connection to be killed has ended. */
const NO_SUCH_THREAD = 1094

/** Tables whose ids start at 1 in each test. */
const NUMBERED = ['namespace', 'counter', 'sequence', 'sequence_group']

/** Tables that record which files of `schema/migrations` were applied. */
const RECORDS = ['migration', 'expansion']

/** Tables whose rows migrations make. */
const KEPT = [...RECORDS, 'revision_mark']

/** Migrated, empty databases that no test uses now. */
const unused: Target[] = []

/** What such a database consists of. */
let migratedSchema: string[] = []

/**
 * An empty database, which no other test uses meanwhile. It is emptied for the next test when this one has finished:
 * that takes a tenth of the time of migrating another one.
 *
 * @param options.migrated whether it has tables; one without is dropped afterwards
 * @param options.isReused off for a test that fills it with so many rows that dropping it is faster
 */
export async function freshDatabase(
  options: { migrated?: boolean; isReused?: boolean } = {},
): Promise<Target> {
  const { migrated = true, isReused = migrated } = options
  const target = (isReused && unused.pop()) || (await createDatabase(migrated))
  onFinished(() => (isReused ? recycle(target) : drop(target)))
  return target
}

/** Connections to a database, closed when the test has finished. */
export function openTestDatabase(target: Target, options: { timeLimitMs?: number } = {}): Database {
  const database = new Database(new Hosts([target]), {
    timeLimitMs: AMPLE_MS,
    maxPending: 100,
    ...options,
  })
  onFinished(database.close)
  return database
}

/** Runs statements as somebody beside Nth would. */
export async function query(target: Target, ...statements: string[]): Promise<RowDataPacket[]> {
  const connection = await createConnection(target)
  try {
    let rows: RowDataPacket[] = []
    for (const statement of statements) [rows] = await connection.query<RowDataPacket[]>(statement)
    return rows
  } finally {
    await connection.end()
  }
}

async function createDatabase(migrated: boolean): Promise<Target> {
  // The database of TEST_DATABASE_URL need not exist.
  const { database: _, ...server } = inject('server')
  const target = { ...server, database: `${inject('databasePrefix')}${randomBytes(6).toString('hex')}` }
  await runStatement(server, `create database ${target.database}`)
  if (!migrated) return target
  await migrate(target)
  if (migratedSchema.length === 0) migratedSchema = await schemaOf(target)
  return target
}

/** Empties a database for the next test, or drops it where a test has left a table, trigger or migration of its own. */
async function recycle(target: Target): Promise<void> {
  await killConnections(target)
  if (`${await schemaOf(target)}` !== `${migratedSchema}`) return drop(target)
  const tables = migratedSchema.flatMap((part) => /^table (.*)/.exec(part)?.[1] ?? [])
  const emptied = tables.filter((table) => !KEPT.includes(table))
  await query(
    target,
    ...emptied.map((table) => `delete from ${table}`),
    `update revision_mark set revision = ${REVISION_OF_NOW}`,
    ...NUMBERED.map((table) => `alter table ${table} auto_increment = 1`),
  )
  unused.push(target)
}

/** A process that was killed may still have a transaction there, which would end in the next test. */
async function killConnections({ database, ...server }: Target): Promise<void> {
  const connection = await createConnection(server)
  while (true) {
    const [others] = await connection.query<RowDataPacket[]>(
      `select id as id from information_schema.processlist where db = '${database}'`,
    )
    if (others.length === 0) break
    for (const { id } of others) await connection.query(`kill ${id}`).catch(unlessGone)
  }
  await connection.end()
}

function unlessGone(error: NodeJS.ErrnoException): void {
  if (error.errno !== NO_SUCH_THREAD) throw error
}

/** Its tables, triggers, migrations and expansions, each with its kind. */
async function schemaOf(target: Target): Promise<string[]> {
  const parts = await partsOf(
    target,
    `select concat('table ', table_name) as part from information_schema.tables where table_schema = database()
     union all
     select concat('trigger ', trigger_name) from information_schema.triggers where trigger_schema = database()`,
  )
  for (const table of RECORDS.filter((name) => parts.includes(`table ${name}`))) {
    const names = `select concat('${table} ', convert(name using utf8mb4)) as part from ${table}`
    parts.push(...(await partsOf(target, names)))
  }
  return parts.toSorted()
}

async function partsOf(target: Target, statement: string): Promise<string[]> {
  return (await query(target, statement)).map(({ part }) => String(part))
}

function drop({ database, ...server }: Target): Promise<void> {
  return runStatement(server, `drop database ${database}`)
}

async function runStatement(target: Partial<Target>, statement: string): Promise<void> {
  const connection = await createConnection(target)
  await connection.query(statement)
  await connection.end()
}

/** Statements that make a table `filled`, whose column `n` has the numbers from 1. */
export function filledUp(last: number): string[] {
  const digits = `(${Array.from({ length: 10 }, (_, digit) => `select ${digit} as d`).join(' union all ')})`
  return [
    `create table filled as
     select 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d as n
       from ${digits} a, ${digits} b, ${digits} c, ${digits} e, ${digits} f
     having n <= ${last}`,
  ]
}

/** The same target in the form that DATABASE_URL takes. */
export function urlOf({ host = 'localhost', port, socketPath, user, password, database }: Target): string {
  const url = new URL(`mysql://${host}/${database}`)
  url.username = user ?? ''
  url.password = password ?? ''
  if (port) url.port = String(port)
  if (socketPath) url.searchParams.set('socketPath', socketPath)
  return url.href
}
