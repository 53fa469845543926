import type { Config } from './config.ts'
import { openNth } from './core/nth.ts'
import { listen } from './http/server.ts'
import { reasonOf } from './mysql/errors.ts'
import { migrate } from './mysql/migrate.ts'
import { holdDirectory } from './mysql/private/dataDirectory.ts'
import { openPrivateDatabase } from './mysql/private/open.ts'
import { untilReady } from './mysql/ready.ts'
import { openStore } from './mysql/store.ts'
import { describeTarget, type Target } from './mysql/target.ts'

export interface App {
  /** Where it can be reached. */
  url: string
  /** Where its data lies, in words. */
  data: string
  /** Ends everything in order, the database last. */
  close(): Promise<void>
}

export interface AppOptions {
  config: Config
  /** Told what takes time and what an operator should know, as sentences. */
  say: (message: string) => void
  /** Told of failures that should not be, with their cause. */
  onFault: (error: unknown) => void
  /** Ends the start. */
  signal: AbortSignal
}

/**
 * Starts everything, in the order in which it can fail for outside reasons: what is cheap to find out comes
 * first. What was opened is closed again in reverse if a later step fails.
 */
export async function startApp(options: AppOptions): Promise<App> {
  const { config, say, onFault, signal } = options
  const closers: Closer[] = []
  const close = () => closeAll(closers)
  try {
    if (!config.target) {
      const directory = await holdDirectory(config.dataDir)
      closers.push(directory.giveBack)
    }
    const server = await listen(config)
    closers.push(server.close)

    const { target, data } = await openTarget(options, closers)
    signal.throwIfAborted()
    await migrate(target)

    const limits = { timeoutMs: config.writeTimeoutMs, maxPending: config.maxPending }
    const store = openStore(target, {
      timeLimitMs: config.writeTimeoutMs,
      maxPending: config.maxPending,
      onReachable: (reason) =>
        say(reason ? `The database is out of reach: ${reasonOf(reason)}.` : 'The database is back.'),
    })
    closers.push(store.close)
    const nth = openNth(store, { ...limits, onFault })
    closers.push(nth.close)
    // Opened first, and so closed last; but once it serves it must be closed before what it serves from.
    closers.push(server.close)
    await server.serve({ nth, onFault })
    signal.throwIfAborted()
    return { url: server.url, data, close }
  } catch (error) {
    await close()
    throw error
  }
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
