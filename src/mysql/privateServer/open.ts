import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { createConnection } from 'mysql2/promise'
import type { Notices } from '../../core/notices.ts'
import type { Target } from '../connections/target.ts'
import { isHeld, unusable } from '../dataDirectory.ts'
import { defaultMemoryMb, findRunningServer, initialise, startPrivateServer } from '../privateServer.ts'
import { fetchServer, findServer, findUnpackedServer, OTHER_WAYS, type ServerKind } from '../serverProgram.ts'

export type PrivateDatabase = Awaited<ReturnType<typeof openPrivateDatabase>>

interface PrivateDatabaseOptions {
  /** A directory that the caller holds. */
  directory: string
  /** Folder of a downloaded server; default: within the directory. */
  programs?: string
  /** Folders to search for an installed server: a list as in PATH. */
  path: string
  /** Memory for its data, in MB; default: by that of the machine. */
  memoryMb?: number | undefined
  /** Get a sentence before each slow step. */
  notices: Notices
  signal: AbortSignal
}

/** Name of the database on the private server. */
const DATABASE = 'nth'

/** Opens the private database in a directory: finds or downloads a server, creates its files and runs it. */
export async function openPrivateDatabase(options: PrivateDatabaseOptions) {
  const { memoryMb = defaultMemoryMb(), notices, signal } = options
  const directory = resolve(options.directory)
  try {
    const root = options.programs ?? join(directory, 'server')
    const program = await serverProgram({ ...options, root, kinds: kindsFor(directory) })
    const data = dataFolder(directory, program.kind)
    if (!existsSync(data))
      notices.info(`Creating a new database in ${data}. This takes a few seconds and happens only once.`)
    await initialise(program, data, signal)
    const server = await startPrivateServer({ program, directory, data, memoryMb, notices, signal })
    try {
      const connection = await createConnection(server.target)
      await connection.query(`create database if not exists ${DATABASE}`)
      await connection.end()
    } catch (error) {
      await server.stop()
      throw error
    }
    return { target: { ...server.target, database: DATABASE }, close: server.stop }
  } catch (error) {
    throw unusable(directory, error)
  }
}

function dataFolder(directory: string, kind: ServerKind): string {
  return join(directory, `data-${kind}`)
}

/** The kinds of server that can read a directory's data: neither kind reads the other's files. */
function kindsFor(directory: string): ServerKind[] {
  const kinds: ServerKind[] = ['mariadb', 'mysql']
  const found = kinds.find((kind) => existsSync(dataFolder(directory, kind)))
  return found ? [found] : kinds
}

interface ServerProgramOptions extends Pick<PrivateDatabaseOptions, 'notices' | 'signal' | 'path'> {
  /** Folder of a downloaded server. */
  root: string
  kinds: ServerKind[]
}

/** The installed server, else one downloaded before, else one downloaded now. */
export async function serverProgram({ root, kinds, path, notices, signal }: ServerProgramOptions) {
  const installed = await findServer(path, kinds)
  if (installed) return installed
  if (!kinds.includes('mariadb')) {
    throw new Error(
      `The data in this directory is from MySQL, but no mysqld was found on this machine. ${OTHER_WAYS}`,
    )
  }
  const unpacked = await findUnpackedServer(root)
  if (unpacked) return unpacked
  notices.info(
    `No database server found on this machine: downloading Debian's mariadb-server-core (7 MB) to ${root} with apt. Nothing is installed.`,
  )
  await fetchServer(root, signal)
  const fetched = await findUnpackedServer(root)
  if (fetched) return fetched
  throw new Error(`The server that was downloaded to ${root} does not run on this machine. ${OTHER_WAYS}`)
}

const SERVER_POLL_MS = 100
const STARTED_WITHIN_MS = 60_000

/**
 * Finds the private database that a running Nth has in a directory, and waits for one that is starting. Undefined: no Nth
 * runs on it.
 *
 * @throws {Error} if its server doesn't start in time
 */
export async function findRunningDatabase(directory: string): Promise<Target | undefined> {
  const deadline = performance.now() + STARTED_WITHIN_MS
  while (await isHeld(directory)) {
    const socketPath = (await findRunningServer(directory))?.socketPath
    if (socketPath !== undefined) return { socketPath, user: 'root', database: DATABASE }
    if (performance.now() > deadline)
      throw new Error(`The Nth that runs on ${directory} has no database server.`)
    await pause(SERVER_POLL_MS)
  }
  return undefined
}
