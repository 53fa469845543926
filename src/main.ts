import pino from 'pino'
import { type App, startApp } from './app.ts'
import { readConfig } from './config.ts'

const log = pino({ name: 'nth' }, pino.destination({ dest: 2, sync: true }))
const ending = new AbortController()

await main()

async function main(): Promise<void> {
  // A first signal ends everything in order; one more ends the process at once, and the kernel its database.
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.on(name, () => (ending.signal.aborted ? process.exit(1) : ending.abort()))
  }
  const app = await start()
  if (!app) return
  console.log(greeting(app))
  await untilEnding()
  await app.close()
}

async function start(): Promise<App | undefined> {
  try {
    return await startApp({
      config: readConfig(process.env),
      say: (message) => console.log(message),
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

function untilEnding(): Promise<void> {
  return new Promise((resolve) => {
    if (ending.signal.aborted) return resolve()
    ending.signal.addEventListener('abort', () => resolve())
  })
}

function greeting({ url, data }: App): string {
  return `
Nth is running.
  GraphQL   ${url}/graphql
  GraphiQL  ${url}/graphql in a browser
  Shop      ${url}/
  Data      ${data}

Try it:
  curl ${url}/graphql -H 'content-type: application/json' -d '{"query":"mutation { increment(name: \\"hello\\") { value } }"}'
`
}

function explained(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException & { port?: number }
  if (code === 'EADDRINUSE') return `${message}: something else uses this port. Choose another with PORT, or 0 for any.`
  if (code === 'EACCES' || code === 'EADDRNOTAVAIL') return `${message}. Choose another HOST or PORT.`
  return message
}
