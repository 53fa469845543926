import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { App } from '../app.ts'
import { type Config, ignoredVariables, readConfig } from '../process/config.ts'
import { keepRequestsYoung } from '../process/heap.ts'
import { openFilesWarning } from '../process/openFiles.ts'
import { version } from '../process/version.ts'
import { USAGE } from './startUsage.ts'

const ending = new AbortController()

/** What operators read of a running process. */
async function openOperatorLog({ logLevel }: Pick<Config, 'logLevel'>) {
  const { openLog } = await import('../process/log.ts')
  const log = openLog(logLevel)
  return {
    warn: (message: string) => log.warn(message),
    onFault: (error: unknown) => log.error(error),
  }
}

export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { help: { type: 'boolean', short: 'h' } } })
  if (values.help) return void process.stdout.write(USAGE)
  keepRequestsYoung()
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, onSignal)
  const app = await start().catch(reportFailure)
  if (!app) return
  console.log(greeting(app))
  if (!ending.signal.aborted) await once(ending.signal, 'abort')
  await shutDown(app)
  // A connection that node:cluster has lost track of must not keep the process alive.
  process.exit()
}

/** Ends in order, within the time that the configuration allows. */
async function shutDown({ drain, close }: App): Promise<void> {
  const { drainDelayMs, shutdownTimeoutMs } = readConfig()
  drain()
  await pause(drainDelayMs)
  const giveUp = setTimeout(() => {
    console.error(`The shutdown took more than ${shutdownTimeoutMs} ms; what is left was ended at once.`)
    process.exit()
  }, shutdownTimeoutMs)
  await close()
  clearTimeout(giveUp)
}

/** Serves as one of several processes, which the primary has forked. */
export async function runAsWorker(): Promise<void> {
  keepRequestsYoung()
  const { runWorker } = await import('../process/worker.ts')
  // The primary has validated it.
  const config = readConfig()
  await runWorker({ ...(await openOperatorLog(config)), config })
}

async function start(): Promise<App> {
  console.log(`Nth ${version}`)
  const config = readConfig()
  const operatorLog = await openOperatorLog(config)
  const warning = openFilesWarning()
  if (warning) operatorLog.warn(warning)
  const ignored = ignoredVariables(config)
  if (ignored) operatorLog.warn(ignored)
  // Imported now: it takes a second, which a mistake in the configuration need not wait for.
  const { startApp } = await import('../app.ts')
  return startApp({ ...operatorLog, say: console.log, config, signal: ending.signal })
}

/** Reports why the start failed. */
function reportFailure(error: unknown): void {
  if (ending.signal.aborted) return
  process.exitCode = 1
  console.error((error as Error).message)
}

/** Time in which a second signal counts as the first: npm forwards a Ctrl-C that the process also received itself. */
const SAME_SIGNAL_MS = 500
let signalledAt = 0

/** The first signal shuts down in order. Another one ends the process at once; the kernel then ends its database. */
function onSignal(): void {
  if (!ending.signal.aborted) {
    signalledAt = performance.now()
    ending.abort()
  } else if (performance.now() - signalledAt > SAME_SIGNAL_MS) {
    process.exit(1)
  }
}

function greeting({ url, workers, data, isOpen }: App): string {
  const { adminKey } = readConfig().access
  const key = adminKey ? '"authorization: Bearer $NTH_ADMIN_KEY"' : "'authorization: Bearer nth_…'"
  const source = isOpen || adminKey ? '' : ' with a key of nth keys create --label hello --allow ADD'
  return `
Nth is running.
  GraphQL   ${url}/graphql
  GraphiQL  ${url}/graphql in a browser
  Shop      ${url}/
  Data      ${data}${workers > 1 ? `\n  Workers   ${workers} processes` : ''}

Try it${source}:
  curl ${url}/graphql -H 'content-type: application/json'${isOpen ? '' : ` -H ${key}`} -d '{"query":"mutation { increment(name: \\"hello\\") { value } }"}'
`
}
