import { readFileSync } from 'node:fs'
import type { Target } from '../src/mysql/settings.ts'
import { ROOT } from './built.ts'
import { type Child, startChild, startProgram } from './children.ts'
import type { RedisServer } from './redis.ts'

export type SystemId =
  | 'nth'
  | 'pair'
  | 'far'
  | 'ceiling'
  | 'textbook'
  | 'recipe'
  | 'drizzle'
  | 'redis'
  | 'mercurius'

/** What systems keep their numbers in. */
export interface Stores {
  database?: Target
  redis?: RedisServer
}

export interface System {
  id: SystemId
  title: string
  needs?: keyof Stores
  start(stores: Stores): Child
}

export const systems: readonly System[] = [
  { id: 'nth', title: 'Nth', needs: 'database', start: (stores) => startNth(stores) },
  {
    id: 'pair',
    title: 'Nth, two processes',
    needs: 'database',
    start: (stores) => startNth(stores, { WORKERS: '2' }),
  },
  {
    id: 'far',
    title: 'Nth, four processes, 5 ms from the database',
    needs: 'database',
    start: ({ database }) => startProgram('systems/far.ts', [JSON.stringify(database)]),
  },
  { id: 'ceiling', title: 'ceiling: Nth in memory', start: startCeiling },
  onDatabase('textbook', 'textbook: Yoga, SERIALIZABLE update and select'),
  onDatabase('recipe', 'recipe: Yoga, one LAST_INSERT_ID statement a call'),
  onDatabase('drizzle', 'drizzle: Yoga, update and select in a transaction'),
  {
    id: 'redis',
    title: 'mercurius + Redis, fsync always',
    needs: 'redis',
    start: ({ redis }) => startProgram('systems/redis.ts', [JSON.stringify({ port: redis?.port })]),
  },
  {
    id: 'mercurius',
    title: 'mercurius in memory',
    start: () => startProgram('systems/mercurius.ts'),
  },
]

/** What the executable tells Node, in its first line. */
export const NODE_FLAGS = (readFileSync(new URL('bin/nth.js', ROOT), 'utf8').split('\n')[0] ?? '')
  .split(' ')
  .filter((word) => word.startsWith('--'))

/** What a system prints when it serves, with its address. */
export const SERVES = /(?:Serving at|GraphQL) +(http:\/\/[^\s/]+)/

/** Starts Nth on the database of the benchmark. */
export function startNth({ database }: Stores, more: Record<string, string> = {}): Child {
  return startNthAt(urlOf(database ?? { database: '' }), more)
}

/** A database as `DATABASE_URL` names it. */
export function urlOf({ database, port = 3306, socketPath }: Target): string {
  const url = new URL(`mysql://root@127.0.0.1:${port}/${database}`)
  if (socketPath !== undefined) url.searchParams.set('socketPath', socketPath)
  return url.href
}

/** Starts Nth on a database. */
export function startNthAt(DATABASE_URL: string, more: Record<string, string> = {}): Child {
  return startChild(process.execPath, [...NODE_FLAGS, 'dist/main.js', 'start'], {
    env: { PORT: '0', DATABASE_URL, ...more },
  })
}

/** Starts a line to a database, on which everything takes some milliseconds each way. */
export async function startLine({ socketPath, ...rest }: Target, delayMs: number) {
  const child = startProgram('systems/line.ts', [JSON.stringify({ socketPath, delayMs })])
  const { hostname: host, port } = new URL(await child.printed(SERVES))
  return { target: { ...rest, host, port: Number(port) } satisfies Target, end: child.end }
}

function startCeiling(): Child {
  return startProgram('systems/ceiling.ts', [], { nodeFlags: NODE_FLAGS })
}

/** A peer of ours that has a database of its own on the same server. */
function onDatabase(id: SystemId, title: string): System {
  return {
    id,
    title,
    needs: 'database',
    start: ({ database }) =>
      startProgram(`systems/${id}.ts`, [JSON.stringify({ ...database, database: `bench_${id}` })]),
  }
}
