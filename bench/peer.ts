// Other ways to count, behind plain Yoga or mercurius: `peer.ts <id> <where its rows are, as JSON>`.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { eq, inArray, sql } from 'drizzle-orm'
import { bigint, mysqlTable, varchar } from 'drizzle-orm/mysql-core'
import { drizzle } from 'drizzle-orm/mysql2'
import fastify from 'fastify'
import { createSchema, createYoga } from 'graphql-yoga'
import { Redis } from 'ioredis'
import mercurius, { type MercuriusLoaders, type MercuriusOptions } from 'mercurius'
import {
  createConnection,
  createPool,
  type Pool,
  type PoolConnection,
  type ResultSetHeader,
  type RowDataPacket,
} from 'mysql2/promise'
import type { Target } from '../src/mysql/settings.ts'
import { type PeerId, peerNames } from './workloads.ts'

const HOST = '127.0.0.1'
/** What people give a pool: mysql2's own default. */
const CONNECTIONS = 10
const TABLES = { counter: 'counter', group: 'sequence_group' } as const

type Kind = keyof typeof TABLES

/** What a peer does with its rows. */
interface Rows {
  /** Adds 1. Returns the row's new value, which no other call gets. */
  add(kind: Kind, name: string): Promise<number>
  /** Reads values in the order of the names, by one statement. */
  read(kind: Kind, names: string[]): Promise<number[]>
  /** What else it reads of counters, for all of a request by one statement. */
  loaders?: MercuriusLoaders
}

/** As much of the API as is measured, as a team would write it that needs no more. */
const typeDefs = /* GraphQL */ `
  type Query {
    counters(names: [String!]!): [Counter!]!
    sequence(name: String!): Sequence!
  }
  type Mutation {
    increment(name: String!): CounterChange
    nextInSequence(name: String!, group: String!): SequenceNumbers
  }
  enum Period {
    HOUR
  }
  type Bucket {
    start: Float!
    value: Int!
  }
  type Counter {
    name: String!
    value: Int!
    history(period: Period!, last: Int!): [Bucket!]
    place: Int
  }
  type CounterChange {
    value: Int!
  }
  type Sequence {
    name: String!
    group(name: String!): SequenceGroup!
  }
  type SequenceGroup {
    name: String!
    lastValue: Int
  }
  type SequenceNumbers {
    value: Int!
    formatted: String!
  }
`

function resolversOf(rows: Rows) {
  return {
    Query: {
      async counters(_: unknown, { names }: { names: string[] }) {
        const values = await rows.read('counter', names)
        return names.map((name, index) => ({ name, value: values[index] }))
      },
      sequence: (_: unknown, { name }: { name: string }) => ({ name }),
    },
    Sequence: {
      async group(_: unknown, { name }: { name: string }) {
        const [lastValue] = await rows.read('group', [name])
        return { name, lastValue }
      },
    },
    Mutation: {
      async increment(_: unknown, { name }: { name: string }) {
        return { value: await rows.add('counter', name) }
      },
      async nextInSequence(_: unknown, { group }: { group: string }) {
        const value = await rows.add('group', group)
        return { value, formatted: `${group}-${value}` }
      },
    },
  }
}

/** What textbooks say: change the row, then read it, both in a transaction that lets nobody in between. */
async function openTextbook(target: Target): Promise<Rows> {
  const pool = await openTables(target, 'set session transaction isolation level serializable')
  return {
    read: (kind, names) => readRows(pool, kind, names),

    async add(kind, name) {
      const connection = await pool.getConnection()
      try {
        while (true) {
          const value = await addOn(connection, kind, name)
          if (value !== undefined) return value
        }
      } finally {
        connection.release()
      }
    },
  }
}

const LOCK_WAIT_TIMEOUT = 1205
const DEADLOCK = 1213

/** Returns undefined if another transaction was in the way, and the same must be tried again. */
async function addOn(connection: PoolConnection, kind: Kind, name: string): Promise<number | undefined> {
  const table = TABLES[kind]
  try {
    await connection.beginTransaction()
    await connection.execute(`update ${table} set value = value + 1 where name = ?`, [name])
    const [[row]] = await connection.execute<RowDataPacket[]>(`select value from ${table} where name = ?`, [
      name,
    ])
    await connection.commit()
    return row?.value
  } catch (error) {
    await connection.rollback()
    const { errno = 0 } = error as { errno?: number }
    if (errno !== LOCK_WAIT_TIMEOUT && errno !== DEADLOCK) throw error
    return undefined
  }
}

/** The recipe of the MySQL Cookbook: one statement, which remembers the value that it sets for its connection. */
async function openRecipe(target: Target): Promise<Rows> {
  return recipeOn(await openTables(target))
}

function recipeOn(pool: Pool): Rows {
  return {
    read: (kind, names) => readRows(pool, kind, names),

    async add(kind, name) {
      const [{ insertId }] = await pool.execute<ResultSetHeader>(
        `update ${TABLES[kind]}
            set value = last_insert_id(value + 1)
          where name = ?`,
        [name],
      )
      return insertId
    },
  }
}

/** The recipe, and what else is read of counters. */
async function openReports(target: Target): Promise<Rows> {
  const pool = await openTables(target)
  await pool.query(
    `create table counter_hour (
       name varchar(191) not null,
       start int unsigned not null,
       value bigint not null,
       primary key (name, start)
     ) engine = InnoDB`,
  )

  async function history(queries: Queries<{ last: number }>) {
    // All fields of a request ask for as many hours.
    const last = queries[0]?.params.last ?? 0
    const [rows] = await pool.query<RowDataPacket[]>(
      `select name, start, value
         from counter_hour
        where name in (?) and start >= ?`,
      [queries.map(({ obj }) => obj.name), HOUR_S * (Math.floor(Date.now() / 1000 / HOUR_S) - last)],
    )
    const hours = new Map(queries.map(({ obj }) => [obj.name, [] as { start: number; value: number }[]]))
    for (const { name, start, value } of rows) hours.get(name)?.push({ start, value })
    return queries.map(({ obj }) => hours.get(obj.name))
  }

  async function place(queries: Queries<object>) {
    const [rows] = await pool.query<RowDataPacket[]>(
      `select name, (select count(*) + 1 from counter above where above.value > counter.value) as place
         from counter
        where name in (?)`,
      [queries.map(({ obj }) => obj.name)],
    )
    const places = new Map(rows.map(({ name, place }) => [name, place]))
    return queries.map(({ obj }) => places.get(obj.name))
  }

  return { ...recipeOn(pool), loaders: { Counter: { history, place } } as MercuriusLoaders }
}

const HOUR_S = 3600

/** Fields of the counters of a request. */
type Queries<Params> = { obj: { name: string }; params: Params }[]

/** What the users of an ORM write: change the row, then read it, in a transaction. */
async function openDrizzle(target: Target): Promise<Rows> {
  const db = drizzle({ client: await openTables(target) })
  const tableOf = (name: string) =>
    mysqlTable(name, {
      name: varchar({ length: 191 }).primaryKey(),
      value: bigint({ mode: 'number' }).notNull(),
    })
  const schema = { counter: tableOf(TABLES.counter), group: tableOf(TABLES.group) }
  return {
    async read(kind, names) {
      const table = schema[kind]
      return inOrder(names, await db.select().from(table).where(inArray(table.name, names)))
    },

    add(kind, name) {
      const table = schema[kind]
      return db.transaction(async (tx) => {
        await tx
          .update(table)
          .set({ value: sql`${table.value} + 1` })
          .where(eq(table.name, name))
        const [row] = await tx.select({ value: table.value }).from(table).where(eq(table.name, name))
        return row?.value ?? 0
      })
    },
  }
}

/**
 * Creates a peer's database, with a table for each kind of row that has all rows at 0, and opens a pool on it.
 *
 * @param first the first statement of each connection
 */
async function openTables({ database, ...server }: Target, first?: string): Promise<Pool> {
  const connection = await createConnection(server)
  await connection.query(`create database ${database}`)
  await connection.query(`use ${database}`)
  for (const kind of ['counter', 'group'] as const) {
    await connection.query(
      `create table ${TABLES[kind]} (
         name varchar(191) not null,
         value bigint not null,
         primary key (name)
       ) engine = InnoDB`,
    )
    const rows = peerNames(kind).map((name) => [name, 0])
    await connection.query(`insert into ${TABLES[kind]} (name, value) values ?`, [rows])
  }
  await connection.end()

  const pool = createPool({ ...server, database, connectionLimit: CONNECTIONS })
  // Queued before whatever the first borrower sends.
  if (first) pool.on('connection', (connection) => void connection.query(first))
  return pool
}

async function readRows(pool: Pool, kind: Kind, names: string[]): Promise<number[]> {
  const [rows] = await pool.query<RowDataPacket[]>(
    `select name, value
       from ${TABLES[kind]}
      where name in (?)`,
    [names],
  )
  return inOrder(
    names,
    rows.map(({ name, value }) => ({ name, value })),
  )
}

function inOrder(names: readonly string[], rows: readonly { name: string; value: number }[]): number[] {
  const values = new Map(rows.map(({ name, value }) => [name, value]))
  return names.map((name) => values.get(name) ?? 0)
}

/** Redis, which writes every change to its disk before it answers. */
function openRedis(port: number): Rows {
  const redis = new Redis({ port, host: HOST, enableAutoPipelining: true })
  const keyOf = (kind: Kind, name: string) => `${kind}:${name}`
  return {
    add: (kind, name) => redis.incr(keyOf(kind, name)),

    async read(kind, names) {
      const values = await redis.mget(names.map((name) => keyOf(kind, name)))
      return values.map(Number)
    },
  }
}

/**
 * Serves rows by plain Yoga. Its limit of a request's size is off, because that copies every request and
 * would cost it more than half of its speed; otherwise as it comes.
 */
async function serveYoga(rows: Rows): Promise<string> {
  const yoga = createYoga({
    schema: createSchema({ typeDefs, resolvers: resolversOf(rows) }),
    maxRequestBodySize: false,
    graphiql: false,
    landingPage: false,
    logging: false,
  })
  const server = createServer(yoga)
  await new Promise<void>((resolve) => server.listen(0, HOST, resolve))
  // It listens at a port, not at the path of a socket.
  return `http://${HOST}:${(server.address() as AddressInfo).port}`
}

/** Serves rows by Fastify and mercurius, which compiles an operation that it has seen once. */
async function serveMercurius(rows: Rows): Promise<string> {
  const app = fastify({ logger: false })
  await app.register(mercurius, {
    schema: typeDefs,
    resolvers: resolversOf(rows),
    loaders: rows.loaders,
    jit: 1,
  } as MercuriusOptions)
  return app.listen({ host: HOST, port: 0 })
}

const PEERS: Record<PeerId, (store: Target & { port: number }) => Promise<string>> = {
  textbook: async (store) => serveYoga(await openTextbook(store)),
  recipe: async (store) => serveYoga(await openRecipe(store)),
  drizzle: async (store) => serveYoga(await openDrizzle(store)),
  mercurius: async (store) => serveMercurius(await openReports(store)),
  redis: ({ port }) => serveMercurius(openRedis(port)),
}

const [, , id = '', store = ''] = process.argv
// `systems.ts` starts it with one of these, and the store that it needs.
console.log(`Serving at ${await PEERS[id as PeerId](JSON.parse(store))}`)
