import type { Config } from './config.ts'
import { Gate } from './graphql/gate.ts'
import { probe } from './http/address.ts'
import { callerWithoutCredentials, isUnprotected } from './http/authentication.ts'
import { isLoopback } from './http/origins.ts'
import type { RateLimits } from './http/rateLimits.ts'
import { listen, openMetricsServer, type ReadMetrics } from './http/server.ts'
import { hasRoom, holdDirectory } from './mysql/dataDirectory.ts'
import { Hosts } from './mysql/hosts.ts'
import { openPrivateDatabase } from './mysql/privateServer.ts'
import { untilReady } from './mysql/ready.ts'
import { describeTargets, type Targets } from './mysql/settings.ts'
import type { Notices } from './operations/log.ts'
import { createAggregate, openMetrics } from './operations/metrics.ts'
import { version } from './operations/process.ts'
import { openTracing } from './operations/tracing.ts'
import { assertNothingLost } from './repository/lostCommits.ts'
import { migrate } from './repository/migrate.ts'
import { openNth } from './repository/nth.ts'
import { isAllowed } from './rules/rights.ts'
import { openWorkers } from './workers.ts'

interface ServerOptions {
  config: Config
  /** The database, which is ready: the configured one, or the private one. */
  targets: Targets
  notices: Notices
  /** Returns the metrics of all workers. Default: the metrics of this process. */
  readMetrics?: ReadMetrics
  /** Shared with the other workers. Default: limits of this process only. */
  rateLimits?: RateLimits
  /** Whether it also runs the scheduled jobs. Default: true. */
  runsJobs?: boolean
  leaderboardAgeMs?: number
}

interface AppOptions extends Omit<ServerOptions, 'targets'> {
  signal: AbortSignal
}

export type App = Awaited<ReturnType<typeof startApp>>

type Closer = () => Promise<void>

/**
 * Starts everything, first what can fail for external reasons, and listens last, when it can serve. If a step fails, what
 * was opened is closed.
 */
export async function startApp(options: AppOptions) {
  const { notices, signal } = options
  const { dataDir, host, port, workers, metricsHost, metricsPort, access } = options.config
  const closers: Closer[] = []
  /** Shuts everything down in order, the database last. */
  const close = () => closeAll(closers)
  try {
    if (!options.config.targets) closers.push(await holdDirectory(dataDir))
    const { address } = await probe(host, port)
    if (metricsPort !== undefined) await probe(metricsHost, metricsPort, 'NTH_METRICS_')
    const { targets, target, data } = await openTarget(options, closers)
    signal.throwIfAborted()
    await migrate(target)
    await assertNothingLost(target)
    signal.throwIfAborted()

    // By the address that was checked: a name can stand for several.
    const config = { ...options.config, host: address }
    const front = await (workers > 1
      ? openWorkers(config, targets, notices)
      : openServer({ ...options, config, targets }))
    closers.push(front.close)
    if (metricsPort !== undefined) {
      const { close, port } = await openMetricsServer(metricsHost, metricsPort, front.readMetrics)
      closers.push(close)
      notices.info(`Metrics: http://${metricsHost}:${port}/metrics`)
    }
    signal.throwIfAborted()
    if (isUnprotected(access)) notices.info(OPEN)
    const isOpen = isAllowed(callerWithoutCredentials(access, isLoopback(address)), 'ADD')
    /** `data` is where the data is, for display. `drain` fails `/ready`, so that proxies use other processes. */
    return { url: front.url, workers, data, isOpen, drain: front.drain, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** Opens what serves in this process, on a database that is ready; it listens last. */
export async function openServer(options: ServerOptions) {
  const { config, targets, notices, runsJobs, rateLimits, leaderboardAgeMs } = options
  const metrics = openMetrics(version)
  const tracing = openTracing(version)
  const { readMetrics = async () => createAggregate().text([await metrics.read()]) } = options
  const nth = openNth(targets, {
    eventualReads: config.eventualReads,
    timeoutMs: config.writeTimeoutMs,
    maxPending: config.maxPending,
    keyTtlMs: config.keyTtlMs,
    runsJobs,
    leaderboardAgeMs,
    hasRoom: config.targets ? undefined : () => hasRoom(config.dataDir),
    random: Math.random,
    notices,
  })
  const closers: Closer[] = [tracing.close, async () => metrics.close(), nth.close]
  /** Accepts no more requests, and waits until those in flight are answered. */
  const close = () => closeAll(closers)
  try {
    // A worker may replace another one long after the start.
    await nth.lookForLosses().catch(() => undefined)
    const server = await listen({
      ...config,
      nth,
      gate: new Gate(config.writeTimeoutMs),
      drainMs: config.shutdownTimeoutMs / 2,
      version,
      notices,
      readMetrics,
      rateLimits,
    })
    closers.push(server.close)
    metrics.observe({ nth: nth.state, database: nth.databaseState, subscribers: server.subscribers })
    return { url: server.url, metrics, readMetrics, drain: server.drain, close }
  } catch (error) {
    await close()
    throw error
  }
}

const OPEN =
  'Nth is open to everyone on this machine. Before others can reach it, set NTH_ADMIN_KEY, and create keys with nth keys.'

async function openTarget({ config, notices, signal }: AppOptions, closers: Closer[]) {
  const { targets } = config
  if (targets) {
    const hosts = new Hosts(targets)
    const ready = untilReady(hosts, { notices, signal, writeTimeoutMs: config.writeTimeoutMs })
    const target = await ready.finally(() => hosts.close())
    return { targets, target, data: describeTargets(targets) }
  }
  const { dataDir: directory, databaseMemoryMb: memoryMb, path } = config
  const server = await openPrivateDatabase({ directory, memoryMb, path, notices, signal })
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
