import { readFile } from 'node:fs/promises'
import { availableParallelism, cpus, totalmem } from 'node:os'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { ROOT } from './built.ts'
import { middleOf } from './median.ts'
import type { Stores } from './systems.ts'

const NTH_PACKAGES = ['graphql', 'graphql-yoga', 'graphql-jit', '@pothos/core', 'mysql2']
const PEER_PACKAGES = [
  'graphql',
  'graphql-yoga',
  'fastify',
  'mercurius',
  'graphql-jit',
  'mysql2',
  'drizzle-orm',
  'ioredis',
]

/** How many round trips to the database are measured. */
const TRIPS = 21

/** What the figures depend on: the machine, and the versions of what runs on it. */
export async function describeMachine({ database, redis }: Stores): Promise<string[]> {
  const memory = Math.round(totalmem() / 2 ** 30)
  return [
    `- Date: ${new Date().toISOString().slice(0, 10)}`,
    `- Machine: ${cpus()[0]?.model ?? 'unknown'}, ${availableParallelism()} cores, ${memory} GiB of memory`,
    `- Node ${process.versions.node}, ${await describeDatabase(database)}, Redis ${redis?.version ?? 'not used'}`,
    `- Nth with ${await versions('node_modules', NTH_PACKAGES)}`,
    `- The others with ${await versions('bench/node_modules', PEER_PACKAGES)}`,
  ]
}

async function describeDatabase(target: Stores['database']): Promise<string> {
  if (!target) return 'database not used'
  const connection = await createConnection(target)
  const [[row]] = await connection.query<RowDataPacket[]>(
    'select version() as version, @@innodb_flush_log_at_trx_commit as flush',
  )
  const trips: number[] = []
  for (let trip = 0; trip < TRIPS; trip++) {
    const sentAt = performance.now()
    await connection.query('do 0')
    trips.push(performance.now() - sentAt)
  }
  await connection.end()
  const tripMs = middleOf(trips).toFixed(1)
  return `database ${row?.version} (innodb_flush_log_at_trx_commit = ${row?.flush}, round trip ${tripMs} ms)`
}

async function versions(folder: string, names: string[]): Promise<string> {
  const described = names.map(async (name) => {
    const file = new URL(`${folder}/${name}/package.json`, ROOT)
    const { version } = JSON.parse(await readFile(file, 'utf8'))
    return `${name} ${version}`
  })
  return (await Promise.all(described)).join(', ')
}
