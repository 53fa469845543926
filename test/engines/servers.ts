import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Node } from './engine.ts'

/** An Nth server, a process of its own, which may be ended and started again. */
export type Server = Awaited<ReturnType<typeof startServer>>

const START_LIMIT_MS = 90_000
/** How long a call may wait: longer than Group Replication takes to elect a primary. */
export const WRITE_TIMEOUT_MS = 60_000

/** Starts a server that writes to the first sound node of a list. */
export async function startServer(name: string, nodes: readonly Node[], directory: string) {
  const hosts = nodes.map(({ host, port }) => `${host}:${port}`).join(',')
  const dataDirectory = join(directory, name)
  await mkdir(dataDirectory, { recursive: true, mode: 0o700 })
  const log = createWriteStream(join(directory, `${name}.log`), { flags: 'a' })
  const crashes: string[] = []
  let child: ChildProcess
  let isEnding = false
  let address: Promise<string>

  function start(): void {
    child = spawn(process.execPath, ['bin/nth.js', 'start'], {
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        PORT: '0',
        NTH_DATA_DIR: dataDirectory,
        DATABASE_URL: `mysql://${name}@${hosts}/nth`,
        NTH_WRITE_TIMEOUT_MS: String(WRITE_TIMEOUT_MS),
      },
    })
    address = listening(child, (chunk) => log.write(chunk))
    address.then(
      () =>
        child.once('exit', (code, signal) => {
          if (isEnding) return
          crashes.push(`${name} ended with ${code ?? signal}`)
          start()
        }),
      // It is awaited by those who call.
      () => undefined,
    )
  }

  async function end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return
    isEnding = true
    const exited = once(child, 'exit')
    child.kill(signal)
    await exited
    isEnding = false
  }

  start()
  const server = {
    name,
    /** Its user of the database, by which its connections are known. */
    user: name,
    /** How it ended by itself, each time. It is then started again. */
    crashes,
    /** Where it listens, as soon as it runs. */
    address: () => address,
    /** Ends its process, waits for that, and starts another. */
    async restart(signal: 'SIGTERM' | 'SIGKILL') {
      await end(signal)
      start()
      await address
    },
    async close() {
      await end('SIGTERM')
      log.end()
    },
  }
  try {
    await server.address()
  } catch (error) {
    await server.close()
    throw error
  }
  return server
}

function listening(child: ChildProcess, onOutput: (chunk: Buffer) => void): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = ''
    const timer = setTimeout(
      () => reject(new Error(`An Nth server has not started: ${text}`)),
      START_LIMIT_MS,
    )
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk: Buffer) => {
        onOutput(chunk)
        if (text.length < 10_000) text += chunk
        const url = /GraphQL\s+(\S+)\/graphql/.exec(text)?.[1]
        if (url === undefined) return
        clearTimeout(timer)
        resolve(url)
      })
    }
    child.on('exit', (code, signal) => {
      clearTimeout(timer)
      reject(new Error(`An Nth server ended with ${code ?? signal}: ${text}`))
    })
  })
}
