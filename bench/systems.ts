import type { Target } from '../src/mysql/target.ts'
import { type Child, startChild, startProgram } from './children.ts'
import type { RedisServer } from './redis.ts'

export type SystemId = 'nth' | 'ceiling' | 'textbook' | 'recipe' | 'drizzle' | 'redis' | 'mercurius'

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
  { id: 'nth', title: 'Nth', needs: 'database', start: startNth },
  { id: 'ceiling', title: 'ceiling: Nth in memory', start: () => startProgram('systems/ceiling.ts') },
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

/** What a system prints when it serves, with its address. */
export const SERVES = /(?:Serving at|GraphQL) +(http:\/\/[^\s/]+)/

function startNth({ database }: Stores): Child {
  const { database: name, socketPath = '' } = database ?? { database: '' }
  const url = new URL(`mysql://root@localhost/${name}`)
  url.searchParams.set('socketPath', socketPath)
  return startChild(process.execPath, ['dist/main.js'], { env: { PORT: '0', DATABASE_URL: url.href } })
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
