import { createConnection, createPool, type Pool, type RowDataPacket } from 'mysql2/promise'
import type { Target } from '../../src/mysql/settings.ts'
import { type Counting, namesOf } from '../workloads.ts'
import { place } from './serve.ts'

/** What people give a pool: mysql2's own default. */
const CONNECTIONS = 10

/**
 * Makes a peer's database, with a table for each kind of row that holds all rows at 0, and opens a pool on it.
 * Each new connection begins with the given statement.
 */
export async function openTables(first?: string): Promise<Pool> {
  const { database, ...server } = place<Target>()
  const connection = await createConnection(server)
  await connection.query(`create database ${database}`)
  await connection.query(`use ${database}`)
  for (const kind of ['counter', 'group'] as const) {
    await connection.query(
      `create table ${tables[kind]} (
         name varchar(191) not null,
         value bigint not null,
         primary key (name)
       ) engine = InnoDB`,
    )
    const rows = namesOf(kind).map((name) => [name, 0])
    await connection.query(`insert into ${tables[kind]} (name, value) values ?`, [rows])
  }
  await connection.end()

  const pool = createPool({ ...server, database, connectionLimit: CONNECTIONS })
  // Queued before whatever the first borrower sends.
  if (first) pool.on('connection', (connection) => void connection.query(first))
  return pool
}

export const tables = { counter: 'counter', group: 'sequence_group' } as const

export async function readRows(pool: Pool, kind: Counting['kind'], names: string[]): Promise<number[]> {
  const [rows] = await pool.query<RowDataPacket[]>(
    `select name, value
     from ${tables[kind]}
     where name in (?)`,
    [names],
  )
  const values = new Map(rows.map(({ name, value }) => [name, value]))
  return names.map((name) => values.get(name) ?? 0)
}
