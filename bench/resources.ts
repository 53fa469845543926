import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import type { Target } from '../src/mysql/settings.ts'
import { type Generator, startGenerator } from './generator.ts'
import { built, type Child, ROOT, SERVES, serverProcessOf, startChild, startProgram } from './processes.ts'
import { medianOf } from './report.ts'

/** How a benchmark reports progress, and how it is stopped. */
export interface Progress {
  say: (message: string) => void
  signal: AbortSignal
}

const run = promisify(execFile)

/** How many round trips to the database are measured. */
const TRIPS = 21
/** Ports of database engines: each gets so many, from the first on. */
const FIRST_PORT = 27_000
const PORTS = 100

const APT = '/usr/bin/apt-get'
const POLICY = '/usr/sbin/policy-rc.d'

/** What a benchmark has started: databases, Redis, and the processes of systems. All of it is closed with it. */
export class Resources {
  /** The versions of the stores that were opened. */
  readonly versions: string[] = []
  readonly #closers: (() => Promise<unknown>)[] = []
  readonly #opened = new Map<string, Promise<unknown>>()
  readonly #directory: string
  readonly #distanceMs: number
  readonly #progress: Progress
  #engines = 0

  constructor(directory: string, distanceMs: number, progress: Progress) {
    this.#directory = directory
    this.#distanceMs = distanceMs
    this.#progress = progress
    this.#closers.push(() => rm(directory, { recursive: true, force: true }))
  }

  /** Has a process ended with the benchmark, if it has not ended before. */
  keep<Ending extends { end(): Promise<void> }>(child: Ending): Ending {
    this.#closers.push(child.end)
    return child
  }

  /** The load generator. A benchmark that is stopped ends it, so that what is under way fails. */
  generator(): Generator {
    const generator = this.keep(startGenerator())
    this.#progress.signal.addEventListener('abort', generator.end)
    return generator
  }

  /** The private database server, at the distance of the benchmark. */
  database(): Promise<Target> {
    return this.#once('database', async () => {
      const server = await this.#server()
      const target = this.#distanceMs > 0 ? await this.distant(this.#distanceMs) : server
      this.versions.push(await describeDatabase(target))
      return target
    })
  }

  /** The process of the private database server. */
  databaseProcess(): Promise<number> {
    return this.#once('process', async () => {
      const connection = await createConnection(await this.#server())
      try {
        return await serverProcessOf(connection)
      } finally {
        await connection.end()
      }
    })
  }

  /** The private database server, some milliseconds away in each direction. */
  async distant(delayMs: number): Promise<Target> {
    const { socketPath, ...rest } = await this.#server()
    const line = this.keep(startProgram('line.ts', [JSON.stringify({ socketPath, delayMs })]))
    const { hostname: host, port } = new URL(await line.printed(SERVES))
    return { ...rest, host, port: Number(port) }
  }

  #server(): Promise<Target> {
    return this.#once('server', async () => {
      const { openPrivateDatabase } =
        await built<typeof import('../src/mysql/privateServer.ts')>('mysql/privateServer.js')
      const { say, signal } = this.#progress
      const database = await openPrivateDatabase({
        directory: await this.#folder('database'),
        // Shared with `npm start`, so that the server's program is fetched once.
        programs: fileURLToPath(new URL('.nth/server', ROOT)),
        path: process.env.PATH ?? '',
        notices: { info: say, warn: say, fault: console.error },
        signal,
      })
      this.#closers.push(database.close)
      return database.target
    })
  }

  /** A Redis that writes every change to its disk before it answers; undefined if none is installed. */
  redis(): Promise<{ port: number; pid: number } | undefined> {
    return this.#once('redis', async () => {
      const readVersion = () => run('redis-server', ['--version']).catch(() => undefined)
      const version = (await readVersion()) ?? (await this.#installRedis().then(readVersion))
      if (!version) {
        this.#progress.say('mercurius + Redis is left out: install redis-server to measure it.')
        return undefined
      }
      this.versions.push(`Redis ${/ v=(\S+)/.exec(version.stdout)?.[1]}`)
      const port = await freePort()
      const redis: Child = this.keep(
        startChild('redis-server', [
          ...['--bind', '127.0.0.1', '--port', String(port), '--dir', await this.#folder('redis')],
          ...['--appendonly', 'yes', '--appendfsync', 'always', '--save', ''],
        ]),
      )
      await redis.printed(/Ready to accept connections/)
      return { port, pid: redis.process.pid ?? 0 }
    })
  }

  /** Installs Debian's package, as root, without starting its service. */
  async #installRedis(): Promise<void> {
    if (process.getuid?.() !== 0 || !existsSync(APT)) return
    this.#progress.say("Installing Debian's redis-server.")
    // Its exit code forbids what a package asks: to start its service. Containers often have one already.
    const isForbidden = existsSync(POLICY)
    if (!isForbidden) await writeFile(POLICY, '#!/bin/sh\nexit 101\n', { mode: 0o755 })
    try {
      await run(APT, ['update', '-qq'])
      await run(APT, ['install', '-qq', '-y', '--no-install-recommends', 'redis-server'])
      await run('/usr/sbin/update-rc.d', ['redis-server', 'disable'])
    } catch (error) {
      this.#progress.say(`Redis could not be installed: ${error}`)
    } finally {
      if (!isForbidden) await rm(POLICY)
    }
  }

  /** Starts a database engine of `engines/` with all of its nodes. Returns host:port of each. */
  engine(name: string): Promise<string[]> {
    return this.#once(name, async () => {
      this.#progress.say(`starting ${name}`)
      const program = fileURLToPath(new URL(`engines/${name}`, ROOT))
      const place = [join(this.#directory, name), String(FIRST_PORT + PORTS * this.#engines++)]
      const order = async (command: string, ...args: string[]) =>
        (await run(program, [command, ...args])).stdout.trim()
      // Also ends what a failed start has left.
      this.#closers.push(() => order('stop', ...place))
      await order('start', ...place)
      this.versions.push(`${name}: ${await order('version')}`)
      return (await order('hosts', ...place)).split(',')
    })
  }

  /** Closes everything, the last first, each even if the one before it failed. */
  async close(): Promise<void> {
    const failures: unknown[] = []
    for (const close of this.#closers.reverse()) {
      await close().catch((error) => failures.push(error))
    }
    if (failures.length > 0) throw new AggregateError(failures, `Not everything could be closed: ${failures}`)
  }

  #once<Value>(key: string, open: () => Promise<Value>): Promise<Value> {
    const opened = this.#opened.get(key) ?? open()
    this.#opened.set(key, opened)
    // Each key has one type of value, as each is used by one method.
    return opened as Promise<Value>
  }

  async #folder(name: string): Promise<string> {
    const path = join(this.#directory, name)
    await mkdir(path)
    return path
  }
}

/** Calls a function with resources, which are closed when it has returned or failed. */
export async function withResources<Value>(
  { distanceMs = 0, ...progress }: Progress & { distanceMs?: number },
  use: (resources: Resources) => Promise<Value>,
): Promise<Value> {
  const directory = await mkdtemp(join(tmpdir(), 'nth-bench-'))
  const resources = new Resources(directory, distanceMs, progress)
  try {
    return await use(resources)
  } finally {
    await resources.close()
  }
}

async function describeDatabase(target: Target): Promise<string> {
  const connection = await createConnection(target)
  const [[row]] = await connection.query<RowDataPacket[]>(
    'select version() as version, @@innodb_flush_log_at_trx_commit as flush',
  )
  const trips: number[] = []
  for (let trip = 0; trip < TRIPS; trip++) {
    const sentAt = performance.now()
    await connection.query('do 0')
    trips.push(performance.now() - sentAt)
  }
  await connection.end()
  const tripMs = medianOf(trips).toFixed(1)
  return `database ${row?.version} (innodb_flush_log_at_trx_commit = ${row?.flush}, round trip ${tripMs} ms)`
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  // It listens at a port, not at the path of a socket.
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
