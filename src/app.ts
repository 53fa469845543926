import type { Config } from './config.ts'
import { openNth } from './core/nth.ts'
import { isLoopback } from './http/hosts.ts'
import { listen } from './http/server.ts'
import { reasonOf } from './mysql/errors.ts'
import { migrate } from './mysql/migrate.ts'
import { holdDirectory } from './mysql/private/dataDirectory.ts'
import { openPrivateDatabase } from './mysql/private/open.ts'
import { untilReady } from './mysql/ready.ts'
import { openStore } from './mysql/store.ts'
import { describeTarget, type Target } from './mysql/target.ts'
import { openWorkers } from './workers.ts'

export interface App {
  /** Where it can be reached. */
  url: string
  /** How many processes serve it. */
  workers: number
  /** Where its data lies, in words. */
  data: string
  /** Ends everything in order, the database last. */
  close(): Promise<void>
}

export interface AppOptions extends ServerOptions {
  /** Ends the start. */
  signal: AbortSignal
}

export interface ServerOptions {
  config: Config
  /** Told what takes time and what an operator should know, as sentences. */
  say: (message: string) => void
  /** Told what keeps the service from its work, and that it is over, as sentences. */
  warn: (message: string) => void
  /** Told of failures that should not be, with their cause. */
  onFault: (error: unknown) => void
  /** Whether it does, beside its work for callers, what is to be done from time to time. On if left out. */
  runsJobs?: boolean
}

/** What callers reach. It holds its address from the start, and answers once it is given a database. */
export interface Front {
  url: string
  serve(target: Target): Promise<void>
  /** Takes no more requests, and waits until those under way are answered. */
  close(): Promise<void>
}

/**
 * Starts everything, in the order in which it can fail for outside reasons: what is cheap to find out comes
 * first. What was opened is closed again in reverse if a later step fails.
 */
export async function startApp(options: AppOptions): Promise<App> {
  const { config, signal } = options
  const closers: Closer[] = []
  const close = () => closeAll(closers)
  try {
    if (!config.target) {
      const directory = await holdDirectory(config.dataDir)
      closers.push(directory.giveBack)
    }
    const front = await openFront(options)
    closers.push(front.close)
    if (!isLoopback(config.host)) options.say(openToOthers(config.host))

    const { target, data } = await openTarget(options, closers)
    signal.throwIfAborted()
    await migrate(target)

    // Opened first, and so closed last; but once it serves it must be closed before what it serves from.
    closers.push(front.close)
    await front.serve(target)
    signal.throwIfAborted()
    return { url: front.url, workers: config.workers, data, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** The front in this process: all of it, or what each worker has. */
export async function openServer({ config, warn, onFault, runsJobs }: ServerOptions): Promise<Front> {
  const server = await listen({ ...config, warn })
  const closers: Closer[] = []

  async function serve(target: Target): Promise<void> {
    const { writeTimeoutMs, maxPending, keyTtlMs } = config
    const store = openStore(target, {
      timeLimitMs: writeTimeoutMs,
      maxPending,
      keyTtlMs,
      runsJobs,
      onFault,
      onReachable: (reason) =>
        warn(reason ? `The database is out of reach: ${reasonOf(reason)}.` : 'The database is back.'),
    })
    closers.push(store.close)
    const nth = openNth(store, { timeoutMs: writeTimeoutMs, maxPending, keyTtlMs, onFault })
    closers.push(nth.close)
    await server.serve({ nth, onFault })
  }

  return { url: server.url, serve, close: () => closeAll([...closers.splice(0), server.close]) }
}

function openToOthers(host: string): string {
  return `HOST=${host}: other machines may reach this server, and there is no authentication: whoever can connect can read, change and delete everything.`
}

async function openFront(options: ServerOptions): Promise<Front> {
  const { host, port, workers } = options.config
  return workers > 1 ? openWorkers({ count: workers, host, port, say: options.say }) : openServer(options)
}

type Closer = () => Promise<void>

async function openTarget(
  { config, say, signal }: AppOptions,
  closers: Closer[],
): Promise<{ target: Target; data: string }> {
  if (config.target) {
    await untilReady(config.target, { say, signal })
    return { target: config.target, data: describeTarget(config.target) }
  }
  const server = await openPrivateDatabase({ directory: config.dataDir, path: config.path, say, signal })
  closers.push(server.close)
  return { target: server.target, data: config.dataDir }
}

/** Closes what was opened, last first, each even if the one before it failed. */
async function closeAll(closers: Closer[]): Promise<void> {
  const failures: unknown[] = []
  for (const close of closers.splice(0).reverse()) {
    await close().catch((error) => failures.push(error))
  }
  if (failures.length > 0) throw new AggregateError(failures, 'Not everything could be closed')
}
