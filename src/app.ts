import { openNth } from './core/nth.ts'
import { isUnprotected } from './http/access/settings.ts'
import { openMetricsServer, type ReadMetrics } from './http/metricsPage.ts'
import { listen } from './http/server.ts'
import { createAggregate, withWorker } from './metrics/aggregate.ts'
import { openMetrics } from './metrics/metrics.ts'
import { reasonOf } from './mysql/connections/errors.ts'
import { openHosts } from './mysql/connections/hosts/hosts.ts'
import { describeTargets, type Targets } from './mysql/connections/target.ts'
import { holdDirectory } from './mysql/privateServer/dataDirectory.ts'
import { openPrivateDatabase } from './mysql/privateServer/open.ts'
import { hasRoom } from './mysql/privateServer/room.ts'
import { migrate } from './mysql/startup/migrate.ts'
import { untilReady } from './mysql/startup/ready.ts'
import { openStore } from './mysql/store.ts'
import type { Config } from './process/config.ts'
import { version } from './process/version.ts'
import { openWorkers } from './process/workers.ts'
import { openTracing } from './tracing/tracing.ts'

export interface ServerOptions {
  config: Config
  /** Called with the beginning and the end of outages, and which database server is used, as sentences. */
  warn: (message: string) => void
  /** Called with unexpected errors, with their cause. */
  onFault: (error: unknown) => void
  /** Returns the metrics of all workers. Default: those of this process. */
  readMetrics?: ReadMetrics
  /** Whether it also runs the scheduled jobs. Default: true. */
  runsJobs?: boolean
}

interface AppOptions extends ServerOptions {
  /** Called with the progress of the start and notices for the operator, as sentences. */
  say: (message: string) => void
  /** Aborts the startup. */
  signal: AbortSignal
}

export type App = Awaited<ReturnType<typeof startApp>>

type Closer = () => Promise<void>

/** Starts everything, first what can fail for external reasons. If a step fails, what was opened is closed. */
export async function startApp(options: AppOptions) {
  const { config, say, signal } = options
  const { workers } = config
  const closers: Closer[] = []
  /** Shuts everything down in order, the database last. */
  const close = () => closeAll(closers)
  try {
    if (!config.targets) closers.push(await holdDirectory(config.dataDir))
    const front = workers > 1 ? await openWorkers(config, say) : await openServer(options)
    closers.push(front.close)
    if (config.metricsPort !== undefined) {
      const { close, port } = await openMetricsServer(
        config.metricsHost,
        config.metricsPort,
        front.readMetrics,
      )
      closers.push(close)
      say(`Metrics: http://${config.metricsHost}:${port}/metrics`)
    }

    const { targets, target, data } = await openTarget(options, closers)
    signal.throwIfAborted()
    front.migrate()
    await migrate(target)

    // It was opened first, so it would be closed last. Once it serves, it must be closed before the database.
    closers.push(front.close)
    await front.serve(targets)
    signal.throwIfAborted()
    if (isUnprotected(config.access)) say(OPEN)
    /** `data` is where the data is, for display. `drain` fails `/ready`, so that proxies use other processes. */
    return { url: front.url, workers, data, drain: front.drain, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** Opens the HTTP server of this process, which listens from the start, and serves once it has a database. */
export async function openServer({ config, warn, onFault, runsJobs, readMetrics }: ServerOptions) {
  const metrics = openMetrics(version)
  const tracing = openTracing(version)
  const readOwn = async () => createAggregate().text([withWorker(await metrics.read(), 1)])
  const server = await listen({ ...config, drainMs: config.shutdownTimeoutMs / 2, version, warn })
  const closers: Closer[] = []

  async function serve(targets: Targets): Promise<void> {
    const { writeTimeoutMs, maxPending, keyTtlMs } = config
    const store = openStore(targets, {
      acceptsLostCommits: config.acceptsLostCommits,
      eventualReads: config.eventualReads,
      say: warn,
      timeLimitMs: writeTimeoutMs,
      maxPending,
      keyTtlMs,
      runsJobs,
      hasRoom: config.targets ? undefined : () => hasRoom(config.dataDir),
      onFault,
      onReachable: (reason) =>
        warn(reason ? `Database unavailable: ${reasonOf(reason)}.` : 'Database available again.'),
    })
    closers.push(store.close)
    const random = Math.random
    const nth = openNth(store, { timeoutMs: writeTimeoutMs, maxPending, keyTtlMs, random, onFault })
    closers.push(nth.close)
    metrics.observe({ nth: nth.state, database: store.state, subscribers: server.subscribers })
    await server.serve({ nth, onFault, readMetrics: readMetrics ?? readOwn })
  }

  return {
    url: server.url,
    metrics,
    readMetrics: readOwn,
    migrate: server.migrate,
    serve,
    drain: server.drain,

    /** Accepts no more requests, and waits until those in flight are answered. */
    async close(): Promise<void> {
      await closeAll([...closers.splice(0), server.close])
      metrics.close()
      await tracing.close()
    },
  }
}

const OPEN =
  'Open to everyone on this machine. Before others can reach it, set NTH_ADMIN_KEY, and create keys with npm run keys.'

async function openTarget({ config, say, signal }: AppOptions, closers: Closer[]) {
  const { targets } = config
  if (targets) {
    const hosts = openHosts(targets, { acceptsLostCommits: config.acceptsLostCommits })
    try {
      const { writeTimeoutMs } = config
      const target = await untilReady(hosts, { say, signal, writeTimeoutMs })
      return { targets, target, data: describeTargets(targets) }
    } finally {
      hosts.close()
    }
  }
  const { dataDir: directory, databaseMemoryMb: memoryMb, path } = config
  const server = await openPrivateDatabase({ directory, memoryMb, path, say, signal })
  closers.push(server.close)
  const { target } = server
  return { targets: [target] as Targets, target, data: config.dataDir }
}

/** Closes what was opened in reverse order, even if some fail. */
async function closeAll(closers: Closer[]): Promise<void> {
  const failures: unknown[] = []
  for (const close of closers.splice(0).reverse()) {
    await close().catch((error) => failures.push(error))
  }
  if (failures.length > 0) throw new AggregateError(failures, 'Some resources could not be closed')
}
