import { randomBytes } from 'node:crypto'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { inject, onTestFinished } from 'vitest'
import { migrate } from '../../src/mysql/migrate.ts'
import type { Target } from '../../src/mysql/target.ts'

/** A database of its own, dropped when the test has finished. */
export async function freshDatabase(options: { migrated?: boolean } = {}): Promise<Target> {
  const server = inject('server')
  const target = { ...server, database: `nth_test_${randomBytes(6).toString('hex')}` }
  await run(server, `create database ${target.database}`)
  onTestFinished(() => run(server, `drop database ${target.database}`))
  if (options.migrated !== false) await migrate(target)
  return target
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

/** The same target in the form that DATABASE_URL takes. */
export function urlOf({ host = 'localhost', port, socketPath, user, password, database }: Target): string {
  const url = new URL(`mysql://${host}/${database}`)
  url.username = user ?? ''
  url.password = password ?? ''
  if (port) url.port = String(port)
  if (socketPath) url.searchParams.set('socketPath', socketPath)
  return url.href
}
