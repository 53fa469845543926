import { randomBytes } from 'node:crypto'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { inject, onTestFinished } from 'vitest'
import { type Database, openDatabase } from '../../src/mysql/connections/database.ts'
import { createFailoverDetector } from '../../src/mysql/connections/failover.ts'
import type { Target } from '../../src/mysql/connections/target.ts'
import { migrate } from '../../src/mysql/startup/migrate.ts'

/** A database of its own, dropped when the test has finished. */
export async function freshDatabase(options: { migrated?: boolean } = {}): Promise<Target> {
  const server = inject('server')
  const target = { ...server, database: `nth_test_${randomBytes(6).toString('hex')}` }
  await run(server, `create database ${target.database}`)
  onTestFinished(() => run(server, `drop database ${target.database}`))
  if (options.migrated !== false) await migrate(target)
  return target
}

/** Connections to a database, closed when the test has finished. */
export function openTestDatabase(target: Target, options: { timeLimitMs?: number } = {}): Database {
  const health = { connecting: () => undefined, writing: () => undefined }
  const failover = createFailoverDetector(() => undefined)
  const database = openDatabase(target, {
    timeLimitMs: 10_000,
    maxPending: 100,
    health,
    failover,
    ...options,
  })
  onTestFinished(database.close)
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

async function run({ database: _, ...server }: Target, statement: string): Promise<void> {
  const connection = await createConnection(server)
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
