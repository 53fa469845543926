import type { Target } from '../src/mysql/settings.ts'
import { type Child, NODE_FLAGS, SERVES, startChild, startProgram } from './processes.ts'
import type { Resources } from './resources.ts'
import type { PeerId, SystemId } from './workloads.ts'

/** A system that serves. */
export interface Running {
  urls: string[]
  pid: number
  /** The process of its store, if that is known. */
  store?: number
  end(): Promise<void>
}

export interface System {
  id: SystemId
  title: string
  /** The database of another way to count, on the same server. */
  database?: string
  /** Returns undefined if what it needs can't be had. */
  start(resources: Resources): Promise<Running | undefined>
}

/** How far the database of `far` is away, in each direction. */
const FAR_MS = 5

export const systems: readonly System[] = [
  {
    id: 'nth',
    title: 'Nth',
    start: async (resources) => ({
      ...(await startNth(await resources.database())),
      store: await resources.databaseProcess(),
    }),
  },
  {
    id: 'pair',
    title: 'Nth, two processes',
    start: async (resources) => startNth(await resources.database(), { WORKERS: '2' }),
  },
  {
    id: 'far',
    title: `Nth, four processes, ${FAR_MS} ms from the database`,
    start: async (resources) => startNth(await resources.distant(FAR_MS), { WORKERS: '4' }),
  },
  {
    id: 'ceiling',
    title: 'ceiling: Nth in memory',
    start: () => running(startProgram('ceiling.ts', [], { nodeFlags: NODE_FLAGS })),
  },
  onDatabase('textbook', 'textbook: Yoga, SERIALIZABLE update and select'),
  onDatabase('recipe', 'recipe: Yoga, one LAST_INSERT_ID statement a call'),
  onDatabase('drizzle', 'drizzle: Yoga, update and select in a transaction'),
  onDatabase('mercurius', 'mercurius + mysql2, one statement a call'),
  {
    id: 'redis',
    title: 'mercurius + Redis, fsync always',
    async start(resources) {
      const redis = await resources.redis()
      return redis && { ...(await startPeer('redis', { port: redis.port })), store: redis.pid }
    },
  },
  onEngine('mariadb', 'MariaDB, one server', 'mariadb-10.11'),
  onEngine('galera', 'Galera, three nodes, one written to', 'galera-10.11'),
  onEngine('galera-2', 'Galera, two servers of Nth on two nodes', 'galera-10.11', { nodes: [0, 1] }),
  onEngine('mysql', 'MySQL, one server', 'mysql-9'),
  onEngine('group', 'Group Replication, three members', 'group-replication'),
  onEngine('group-eventual', 'Group Replication, NTH_CLUSTER_READS=eventual', 'group-replication', {
    environment: { NTH_CLUSTER_READS: 'eventual' },
  }),
]

/** Starts Nth on a database. */
export function startNth(target: Target, environment: Record<string, string> = {}): Promise<Running> {
  const { database, port = 3306, socketPath } = target
  const url = new URL(`mysql://root@127.0.0.1:${port}/${database}`)
  if (socketPath !== undefined) url.searchParams.set('socketPath', socketPath)
  return running(startNthProcess(url.href, environment))
}

function startNthProcess(DATABASE_URL: string, environment: Record<string, string>): Child {
  return startChild(process.execPath, [...NODE_FLAGS, 'dist/main.js', 'start'], {
    env: { PORT: '0', DATABASE_URL, ...environment },
  })
}

/** Another way to count, with a database of its own on the same server. */
function onDatabase(id: PeerId, title: string): System {
  const database = `bench_${id}`
  return {
    id,
    title,
    database,
    start: async (resources) => ({
      ...(await startPeer(id, { ...(await resources.database()), database })),
      store: await resources.databaseProcess(),
    }),
  }
}

function startPeer(id: PeerId, store: Target | { port: number }): Promise<Running> {
  return running(startProgram('peer.ts', [id, JSON.stringify(store)]))
}

/** One server of Nth for each of some nodes of an engine, each of which has the other nodes for later. */
function onEngine(
  id: SystemId,
  title: string,
  engine: string,
  { nodes = [0], environment = {} }: { nodes?: number[]; environment?: Record<string, string> } = {},
): System {
  return {
    id,
    title,
    async start(resources) {
      const hosts = await resources.engine(engine)
      const servers: Running[] = []
      // One after another, as the first one creates the tables.
      for (const node of nodes) {
        const ordered = [...hosts.slice(node), ...hosts.slice(0, node)]
        const url = `mysql://root@${ordered.join(',')}/${id.replace('-', '_')}`
        const child = startNthProcess(url, { NTH_WRITE_TIMEOUT_MS: '60000', ...environment })
        servers.push(resources.keep(await running(child)))
      }
      return {
        urls: servers.flatMap(({ urls }) => urls),
        pid: servers[0]?.pid ?? 0,
        end: async () => void (await Promise.all(servers.map((server) => server.end()))),
      }
    },
  }
}

/** Waits until a process serves, and ends it if it does not. */
export async function running(child: Child): Promise<Running> {
  try {
    return { urls: [await child.printed(SERVES)], pid: child.process.pid ?? 0, end: child.end }
  } catch (error) {
    await child.end()
    throw error
  }
}
