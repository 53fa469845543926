import cluster from 'node:cluster'
import pino from 'pino'
import { type App, startApp } from './app.ts'
import { answerTo } from './commandLine.ts'
import { readConfig } from './config.ts'
import { keepRequestsYoung } from './heap.ts'
import { runWorker } from './worker.ts'

const log = pino({ name: 'nth' }, pino.destination({ dest: 2, sync: true }))
const ending = new AbortController()

async function main(): Promise<void> {
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, onSignal)
  const app = await start()
  if (!app) return
  console.log(greeting(app))
  await untilEnding()
  await app.close()
  // A connection that node:cluster has lost sight of must not keep the process.
  process.exit()
}

async function start(): Promise<App | undefined> {
  try {
    const answer = answerTo(process.argv.slice(2))
    if (answer !== undefined) return void process.stdout.write(answer)
    return await startApp({
      config: readConfig(),
      say: (message) => console.log(message),
      warn: (message) => console.error(message),
      onFault: (error) => log.error(error),
      signal: ending.signal,
    })
  } catch (error) {
    if (ending.signal.aborted) return undefined
    console.error(explained(error))
    process.exitCode = 1
    return undefined
  }
}

/** Within this time a second signal is the first one again: npm hands on a Ctrl-C that the process got itself. */
const SAME_SIGNAL_MS = 500
let signalledAt = 0

/** The first signal ends everything in order; another ends the process at once, and the kernel its database. */
function onSignal(): void {
  if (!ending.signal.aborted) {
    signalledAt = performance.now()
    ending.abort()
  } else if (performance.now() - signalledAt > SAME_SIGNAL_MS) {
    process.exit(1)
  }
}

function untilEnding(): Promise<void> {
  return new Promise((resolve) => {
    if (ending.signal.aborted) return resolve()
    ending.signal.addEventListener('abort', () => resolve())
  })
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

/** What the system's errors mean for whoever started this. Others say it themselves. */
function explained(error: unknown): string {
  const { code, message, syscall = '' } = error as NodeJS.ErrnoException
  if (code === 'EADDRINUSE') {
    return `${message}: something else uses this port. Choose another with PORT, or 0 for any that is free.`
  }
  if (['listen', 'bind', 'getaddrinfo'].includes(syscall)) return `${message}. Choose another HOST or PORT.`
  return message
}

function serveAsWorker(): Promise<void> {
  return runWorker({
    // The primary has found it sound.
    config: readConfig(),
    say: (message) => console.log(`Worker ${process.pid}: ${message}`),
    warn: (message) => console.error(`Worker ${process.pid}: ${message}`),
    onFault: (error) => log.error(error),
  })
}

keepRequestsYoung()
await (cluster.isPrimary ? main() : serveAsWorker())
