import cluster from 'node:cluster'
import { once } from 'node:events'
import pino from 'pino'
import type { App } from './app.ts'
import { answerTo } from './process/commandLine.ts'
import { readConfig } from './process/config.ts'
import { keepRequestsYoung } from './process/heap.ts'
import { openFilesWarning } from './process/openFiles.ts'

const log = pino({ name: 'nth' }, pino.destination({ dest: 2, sync: true }))
const ending = new AbortController()

const prefix = cluster.isPrimary ? '' : `Worker ${process.pid}: `
const operator = {
  say: (message: string) => console.log(prefix + message),
  warn: (message: string) => console.error(prefix + message),
  onFault: (error: unknown) => log.error(error),
}

async function main(): Promise<void> {
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, onSignal)
  const app = await start().catch(reportFailure)
  if (!app) return
  console.log(greeting(app))
  if (!ending.signal.aborted) await once(ending.signal, 'abort')
  await app.close()
  // A connection that node:cluster has lost track of must not keep the process alive.
  process.exit()
}

async function start(): Promise<App | undefined> {
  const answer = answerTo(process.argv.slice(2))
  if (answer !== undefined) return void process.stdout.write(answer)
  const config = readConfig()
  const warning = openFilesWarning()
  if (warning) operator.warn(warning)
  // Imported now: it takes a second, which a mistake in the configuration need not wait for.
  const { startApp } = await import('./app.ts')
  return startApp({ ...operator, config, signal: ending.signal })
}

/** Reports why the start failed, with advice on system errors. */
function reportFailure(error: unknown): void {
  if (ending.signal.aborted) return
  process.exitCode = 1
  const { code, message, syscall = '' } = error as NodeJS.ErrnoException
  if (code === 'EADDRINUSE') {
    console.error(`${message}: the port is in use. Choose another with PORT, or 0 for any free port.`)
  } else {
    const isAddress = ['listen', 'bind', 'getaddrinfo'].includes(syscall)
    console.error(isAddress ? `${message}. Choose another HOST or PORT.` : message)
  }
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

function greeting({ url, workers, data }: App): string {
  return `
Nth is running.
  GraphQL   ${url}/graphql
  GraphiQL  ${url}/graphql in a browser
  Shop      ${url}/
  Data      ${data}${workers > 1 ? `\n  Workers   ${workers} processes` : ''}

Try it:
  curl ${url}/graphql -H 'content-type: application/json' -d '{"query":"mutation { increment(name: \\"hello\\") { value } }"}'
`
}

keepRequestsYoung()
if (cluster.isPrimary) {
  await main()
} else {
  const { runWorker } = await import('./process/worker.ts')
  // The primary has validated the configuration.
  await runWorker({ ...operator, config: readConfig() })
}
