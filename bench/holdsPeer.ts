// Holds as a textbook has them, behind mercurius: `holdsPeer.ts <where its rows are, as JSON>`.
import { randomBytes } from 'node:crypto'
import fastify from 'fastify'
import mercurius from 'mercurius'
import { createConnection, createPool, type ResultSetHeader, type RowDataPacket } from 'mysql2/promise'
import type { Target } from '../src/mysql/settings.ts'

const typeDefs = /* GraphQL */ `
  input CounterDeltaInput {
    name: String!
    delta: Int
  }
  type Hold {
    id: ID!
  }
  type Mutation {
    hold(changes: [CounterDeltaInput!]!, ttlSeconds: Int! = 300): Hold
  }
  type Query {
    ready: Boolean
  }
`

interface HoldArguments {
  changes: { name: string; delta?: number }[]
  ttlSeconds: number
}

const { database, ...server }: Target = JSON.parse(process.argv[2] ?? '{}')
const setup = await createConnection(server)
await setup.query(`create database if not exists ${database}`)
await setup.end()
// mysql2's own default is 10 connections.
const pool = createPool({ ...server, database, connectionLimit: 10 })
await pool.query(
  `create table if not exists counter (
     id bigint unsigned not null auto_increment,
     name varchar(191) not null,
     value bigint not null default 0,
     held bigint not null default 0,
     max_value bigint not null default ${Number.MAX_SAFE_INTEGER},
     primary key (id),
     unique key (name)
   ) engine = InnoDB`,
)
// The indexes of Nth. Expired holds are left to a job, which isn't measured.
await pool.query(
  `create table if not exists hold (
     token binary(16) not null,
     counter_id bigint unsigned not null,
     amount bigint not null,
     open_until bigint null,
     primary key (token, counter_id),
     key hold_open (counter_id, open_until, amount)
   ) engine = InnoDB`,
)

async function hold(_: unknown, { changes, ttlSeconds }: HoldArguments) {
  const connection = await pool.getConnection()
  const token = randomBytes(16)
  try {
    await connection.beginTransaction()
    for (const { name, delta = 1 } of changes) {
      const [[counter]] = await connection.execute<RowDataPacket[]>(
        'select id, value + held as used, max_value from counter where name = ? for update',
        [name],
      )
      if (!counter || counter.used + delta > counter.max_value) throw new Error('LIMIT_REACHED')
      await connection.execute<ResultSetHeader>(
        'insert into hold (token, counter_id, amount, open_until) values (?, ?, ?, ?)',
        [token, counter.id, delta, Date.now() + 1000 * ttlSeconds],
      )
      await connection.execute('update counter set held = held + ? where id = ?', [delta, counter.id])
    }
    await connection.commit()
    return { id: token.toString('hex') }
  } catch (error) {
    await connection.rollback()
    throw error
  } finally {
    connection.release()
  }
}

const app = fastify({ logger: false })
await app.register(mercurius, { schema: typeDefs, resolvers: { Mutation: { hold } }, jit: 1 })
console.log(`Serving at ${await app.listen({ host: '127.0.0.1', port: 0 })}`)
