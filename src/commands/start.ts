import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { App } from '../app.ts'
import { type Config, ignoredVariables, readConfig } from '../config.ts'
import { type Notices, openLog } from '../operations/log.ts'
import { keepRequestsYoung, openFilesWarning, version } from '../operations/process.ts'
import type { Report, WorkerCommand } from '../workers.ts'

export const USAGE = `Usage: nth start [--help]

Runs Nth: counters and sequences over GraphQL and MySQL. Environment variables, with defaults in parentheses:

  HOST                       address to listen on (127.0.0.1)
  PORT                       port to listen on; 0 for any free port (4000)
  WORKERS                    number of processes that serve, or auto for one per core (1)
  DATABASE_URL               mysql://user:password@host:port,host:port/database (a private server)
  NTH_CLUSTER_READS          eventual: reads on a cluster may miss the latest commits (causal)
  NTH_DATA_DIR               directory of the private server (.nth)
  NTH_DATABASE_MEMORY_MB     memory of the private server, in MB (a quarter of the machine's)
  NTH_ADMIN_KEY              the administrator's key, at least 32 characters; then others need keys (none)
  NTH_ANONYMOUS              what callers without a key may do, such as READ,ADD (on loopback everything)
  NTH_ALLOWED_ORIGINS        origins allowed to call without a key, separated by commas, or * (none)
  NTH_ANONYMOUS_PER_MINUTE   maximum changes a minute from an address without a key (unlimited)
  NTH_BROWSER_PER_MINUTE     the same for each key for pages without a limit of its own (300)
  NTH_MAX_CONNECTIONS_PER_ADDRESS  maximum connections from an address (1000)
  NTH_MAX_STREAMS_PER_CLIENT  maximum streams and WebSockets of a key from an address (100)
  NTH_DOCUMENTS              trusted: only keys with ADMIN may run other than trusted documents (any)
  NTH_TRUST_PROXY            networks of proxies whose X-Forwarded-For is believed (none)
  NTH_PUBLIC_URL             URL under which browsers reach this server's pages (its own)
  NTH_JWT_ISSUER             issuer of the tokens to accept (none)
  NTH_JWT_AUDIENCE           audience of these tokens
  NTH_JWT_JWKS_URL           URL of the issuer's public keys
  NTH_WRITE_TIMEOUT_MS       maximum wait of a call, in milliseconds (10000)
  NTH_MAX_PENDING            maximum waiting changes per process (10000)
  NTH_LOG_LEVEL              silent, error, warn, info (failed requests) or debug (all requests) (info)
  NTH_METRICS_PORT           port on which /metrics needs no key; 0 for any free port (none)
  NTH_METRICS_HOST           address of that port (127.0.0.1)
  NTH_DRAIN_DELAY_MS         how long /ready fails before a shutdown, in milliseconds (0)
  NTH_SHUTDOWN_TIMEOUT_MS    maximum time of a shutdown after that, in milliseconds (20000)
  NTH_IDEMPOTENCY_TTL_HOURS  how long idempotency keys are valid, in hours (24)
`

const ending = new AbortController()

/** Signals that shut down in order; a terminal that is closed sends SIGHUP. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

export async function run(args: string[]): Promise<void> {
  parseArgs({ args })
  keepRequestsYoung()
  for (const name of SIGNALS) process.on(name, onSignal)
  const config = readConfig()
  const notices = openLog(config.logLevel)
  notices.info(`Nth ${version}`)
  const app = await start(config, notices).catch((error) => {
    // A start that a signal ended has not failed.
    if (!ending.signal.aborted) throw error
  })
  if (!app) return
  notices.info(greeting(app, config))
  if (!ending.signal.aborted) await once(ending.signal, 'abort')
  await shutDown(app, config)
  // A connection that node:cluster has lost track of must not keep the process alive.
  process.exit()
}

/** Ends in order, within the time that the configuration allows. */
async function shutDown({ drain, close }: App, config: Config): Promise<void> {
  const { drainDelayMs, shutdownTimeoutMs } = config
  drain()
  await pause(drainDelayMs)
  const giveUp = setTimeout(() => {
    console.error(`The shutdown took more than ${shutdownTimeoutMs} ms, so Nth ended at once.`)
    process.exit()
  }, shutdownTimeoutMs)
  await close()
  clearTimeout(giveUp)
}

async function start(config: Config, notices: Notices): Promise<App> {
  const warning = openFilesWarning()
  if (warning) notices.warn(warning)
  for (const notice of ignoredVariables(config)) notices.warn(notice)
  // Imported now: it takes a second, which a mistake in the configuration need not wait for.
  const { startApp } = await import('../app.ts')
  return startApp({ notices, config, signal: ending.signal })
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

function greeting({ url, workers, data, isOpen }: App, { access: { adminKey } }: Config): string {
  const key = adminKey ? '"authorization: Bearer $NTH_ADMIN_KEY"' : "'authorization: Bearer nth_…'"
  const source = isOpen || adminKey ? '' : ' with a key of nth keys create --label hello --allow ADD'
  return `
Nth is running.
  GraphQL   ${url}/graphql
  GraphiQL  ${url}/graphql in a browser
  Home      ${url}/
  Data      ${data}${workers > 1 ? `\n  Workers   ${workers} processes` : ''}

Try it${source}:
  curl ${url}/graphql -H 'content-type: application/json'${isOpen ? '' : ` -H ${key}`} -d '{"query":"mutation { increment(name: \\"hello\\") { value } }"}'
`
}

/** How often its metrics are reported: of a worker that is killed, what it counted since is not known. */
const REPORT_EVERY_MS = 1000

/**
 * Serves as one of several processes, which the primary has forked, until the primary orders it to end. If the primary
 * dies, node:cluster ends it.
 */
export async function runAsWorker(): Promise<void> {
  keepRequestsYoung()
  // A Ctrl-C in a terminal reaches the whole process group. A worker ignores it, and ends on the primary's command.
  for (const name of SIGNALS) process.on(name, () => undefined)
  const { openServer } = await import('../app.ts')
  const { RateLimits } = await import('../http/rateLimits.ts')
  const rateLimits = new RateLimits((spent) => void report({ state: 'allowed changes', spent }))
  // The primary has validated it.
  const config = readConfig()
  const notices = openLog(config.logLevel)
  let server: Awaited<ReturnType<typeof openServer>> | undefined
  const waiting: ((metrics: string) => void)[] = []

  /** The metrics of all workers, which the primary adds up. */
  function readMetrics(): Promise<string> {
    void report({ state: 'requests metrics' })
    return new Promise((resolve) => waiting.push(resolve))
  }

  async function measure(): Promise<void> {
    if (server) await report({ state: 'measured', metrics: await server.metrics.read() })
  }

  async function execute(command: WorkerCommand): Promise<void> {
    switch (command.to) {
      case 'serve':
        server = await openServer({ notices, config, targets: command.targets, readMetrics, rateLimits })
        setInterval(() => void measure().catch(notices.fault), REPORT_EVERY_MS).unref()
        await measure()
        return report({ state: 'serving', url: server.url })
      case 'receive metrics':
        for (const resolve of waiting.splice(0)) resolve(command.text)
        return
      case 'count changes':
        return rateLimits.remove(command.spent)
      case 'drain':
        return server?.drain()
      case 'end':
        await server?.close().catch(notices.fault)
        await measure()
        process.exit()
    }
  }

  // When one reports why it can't continue, the primary ends it.
  const onFailure = ({ message }: Error) => report({ state: 'failed', message })
  process.on('message', (command: WorkerCommand) => void execute(command).catch(onFailure))
  await report({ state: 'started' })
}

/** Returns when it was sent. If it can't be delivered, the primary has ended, and this process is about to end. */
function report(report: Report): Promise<void> {
  return new Promise((resolve) => process.send?.(report, () => resolve()))
}
