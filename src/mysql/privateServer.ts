import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises'
import { tmpdir, totalmem } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { createConnection } from 'mysql2/promise'
import type { Notices } from '../operations/log.ts'
import { backoffMs, RESTART } from '../rules/errors.ts'
import { commandLine, endProcess, execute, isHeld, unusable } from './dataDirectory.ts'
import { reasonOf } from './errors.ts'
import {
  fetchServer,
  findServer,
  findUnpackedServer,
  OTHER_WAYS,
  type ServerKind,
  type ServerProgram,
} from './serverProgram.ts'
import type { Target } from './settings.ts'

interface PrivateDatabaseOptions {
  /** A directory that the caller holds. */
  directory: string
  /** Folder of a downloaded server; default: within the directory. */
  programs?: string
  /** Folders to search for an installed server: a list as in PATH. */
  path: string
  /** Memory for the server's data, in MB; default: by the machine's memory. */
  memoryMb?: number | undefined
  /** Get a sentence before each slow step. */
  notices: Notices
  signal: AbortSignal
}

/** Opens the private database in a directory: finds or downloads a server, creates its files and runs it. */
export async function openPrivateDatabase(options: PrivateDatabaseOptions): Promise<PrivateDatabase> {
  const { memoryMb = defaultMemoryMb(), notices, signal } = options
  const directory = resolve(options.directory)
  try {
    const root = options.programs ?? join(directory, 'server')
    const program = await serverProgram({ ...options, root, kinds: kindsFor(directory) })
    const data = dataFolder(directory, program.kind)
    if (!existsSync(data))
      notices.info(`Creating a new database in ${data}. This takes a few seconds and happens only once.`)
    await initialise(program, data, signal)
    return await startPrivateServer({ program, directory, data, memoryMb, notices, signal })
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
  const kind = kinds.find((each) => existsSync(dataFolder(directory, each)))
  return kind ? [kind] : kinds
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

/**
 * Finds the private database that a running Nth has in a directory, and waits for one that is starting. Undefined: no Nth
 * runs on it.
 *
 * @throws {Error} if its server doesn't start in time
 */
export async function findRunningDatabase(directory: string): Promise<Target | undefined> {
  const deadline = performance.now() + READY_WITHIN_MS
  while (await isHeld(directory)) {
    const socketPath = (await findRunningServer(directory))?.socketPath
    if (socketPath !== undefined) return targetOf(socketPath)
    if (performance.now() > deadline)
      throw new Error(`An Nth process uses ${directory}, but its database server did not start in time.`)
    await pause(POLL_MS)
  }
  return undefined
}

function targetOf(socketPath: string): Target {
  return { socketPath, user: 'root', database: 'nth' }
}

/** A database whose server runs as a child of this process. */
export type PrivateDatabase = Awaited<ReturnType<typeof startPrivateServer>>

interface PrivateServerOptions extends Pick<PrivateDatabaseOptions, 'directory' | 'notices' | 'signal'> {
  program: ServerProgram
  /** The folder in `directory` that holds its data; its name begins with `data`. */
  data: string
  memoryMb: number
}

const PID_FILE = 'server.pid'
const READY_WITHIN_MS = 60_000
const STOPPED_WITHIN_MS = 20_000
const POLL_MS = 20

/**
 * Starts a server on files that `initialise` created, and restarts it whenever it exits by itself, until it is stopped.
 * The caller holds the directory, so a server that still runs on it is one whose parent was killed: it is ended first.
 *
 * On Linux the kernel ends the server when this process ends, for whatever reason (PR_SET_PDEATHSIG).
 */
export async function startPrivateServer(options: PrivateServerOptions) {
  const { program, directory, data, memoryMb, notices, signal } = options
  const { socketPath, removeSocketFolder } = await makeSocketFolder(directory)
  const target = targetOf(socketPath)
  const [command, ...args] = commandFor(program, [
    ...commonOptions(program, data),
    `--innodb-buffer-pool-size=${memoryMb}M`,
    `--${REDO_LOG[program.kind]}=${logSizeMb(memoryMb)}M`,
    `--socket=${socketPath}`,
    `--pid-file=${join(directory, PID_FILE)}`,
    `--log-error=${join(directory, 'server.log')}`,
  ])
  let child: ChildProcess | undefined
  /** How it ended, when it has. */
  let end = Promise.resolve('')
  let isStopping = false

  async function start(): Promise<void> {
    const orphan = await findRunningServer(directory)
    if (orphan) await endProcess(orphan.pid, STOPPED_WITHIN_MS)
    if (isStopping) return
    await makeTemporaryFolder(data)
    // Not in the terminal's process group: Ctrl-C is for this process, which stops the server last.
    child = spawn(command, args, { stdio: 'ignore', detached: true })
    end = once(child, 'exit').then(
      ([code, by]) => `exited unexpectedly (${by ?? `exit ${code}`})`,
      (error) => `could not be started (${error.message})`,
    )
    await untilReady(target, end, signal)
  }

  /** @param failures how many starts have failed, one after another, with this end */
  async function restartOnEnd(failures = 1): Promise<void> {
    const why = await end
    if (isStopping) return
    notices.info(`The database server ${why}; restarting it.`)
    await pause(backoffMs(RESTART, failures))
    void start().then(
      () => restartOnEnd(),
      () => restartOnEnd(failures + 1),
    )
  }

  async function close(): Promise<void> {
    isStopping = true
    if (child?.pid !== undefined && child.exitCode === null && child.signalCode === null)
      await endProcess(child.pid, STOPPED_WITHIN_MS)
    await end
    await removeSocketFolder()
  }

  try {
    await start()
  } catch (error) {
    await close()
    throw signal.aborted ? error : await startError(error, directory)
  }
  void restartOnEnd()
  return { target, close }
}

const SETPRIV = '/usr/bin/setpriv'
const REDO_LOG = { mariadb: 'innodb-log-file-size', mysql: 'loose-innodb-redo-log-capacity' }

function commandFor({ kind, command }: ServerProgram, options: string[]): [string, ...string[]] {
  const words: [string, ...string[]] = [
    ...command,
    ...options,
    '--skip-networking',
    '--character-set-server=utf8mb4',
    '--skip-log-bin',
    '--performance-schema=OFF',
    // Enough for the maximum of 64 workers, with 10 connections each.
    '--max-connections=1000',
    '--innodb-flush-log-at-trx-commit=1',
    ...(kind === 'mysql' ? ['--mysqlx=OFF'] : []),
  ]
  return existsSync(SETPRIV) ? [SETPRIV, '--pdeathsig', 'TERM', '--', ...words] : words
}

/**
 * Default memory for the data of a private server, in MB: a quarter of the usable memory, from 128 to 4 096.
 *
 * @param usable memory of the machine, or of its container, in bytes
 */
export function defaultMemoryMb(
  usable = Math.min(process.constrainedMemory() || Infinity, totalmem()),
): number {
  return Math.min(Math.max(Math.floor(usable / 4 / 2 ** 20), 128), 4096)
}

/**
 * Size of the redo log for a memory size, in MB: an eighth, from 64 to 512. A larger log lets changed pages stay in
 * memory for longer, and takes longer to recover from.
 */
export function logSizeMb(memoryMb: number): number {
  return Math.min(Math.max(Math.floor(memoryMb / 8), 64), 512)
}

const SOCKET = 'server.sock'
/** Maximum length of a socket's path on Linux, in bytes, without its final zero byte. */
const LONGEST_SOCKET_PATH = 107

/** A socket, to which anyone can connect, in a folder of this user only: in `directory`, or under a shorter path. */
async function makeSocketFolder(directory: string) {
  const near = join(directory, 'run')
  const socketPath = join(near, SOCKET)
  if (Buffer.byteLength(socketPath) <= LONGEST_SOCKET_PATH) {
    await mkdir(near, { recursive: true })
    await chmod(near, 0o700)
    return { socketPath, removeSocketFolder: async () => undefined }
  }
  const folder = await mkdtemp(join(tmpdir(), 'nth-'))
  const removeSocketFolder = () => rm(folder, { recursive: true, force: true })
  return { socketPath: join(folder, SOCKET), removeSocketFolder }
}

/** The server that runs on the data in a directory: the process whose id is stored there, if it is one. */
async function findRunningServer(directory: string) {
  const pid = Number(await readFile(join(directory, PID_FILE), 'utf8').catch(() => ''))
  const command = pid ? await commandLine(pid) : undefined
  if (!command?.includes(`--datadir=${join(directory, 'data')}`)) return undefined
  const [, socketPath] = /--socket=(.+?) --pid-file=/.exec(command) ?? []
  return { pid, socketPath }
}

/** Waits until the server answers, and creates the database. */
async function untilReady({ database, ...server }: Target, end: Promise<string>, signal: AbortSignal) {
  const deadline = performance.now() + READY_WITHIN_MS
  let ended: string | undefined
  void end.then((how) => {
    ended = how
  })
  while (true) {
    signal.throwIfAborted()
    if (ended !== undefined) throw new Error(`it ${ended}`)
    try {
      const connection = await createConnection(server)
      await connection.query(`create database if not exists ${database}`)
      return await connection.end()
    } catch (error) {
      if (performance.now() > deadline)
        throw new Error(`it did not answer within ${READY_WITHIN_MS / 1000} seconds`, { cause: error })
      await pause(POLL_MS)
    }
  }
}

async function startError(error: unknown, directory: string): Promise<Error> {
  const file = join(directory, 'server.log')
  const log = (await readFile(file, 'utf8').catch(() => '')).trim().split('\n').slice(-5).join('\n')
  const text = `The database server could not be started: ${reasonOf(error)}. Last lines of its log, ${file}:\n${log}`
  return new Error(text, { cause: error })
}

/**
 * Creates the data files of a new server under `path`, unless they exist. They get that name only when complete, so an
 * interrupted start leaves no incomplete files there.
 *
 * Its user `root` has no password: the server only listens on a socket, in a directory private to its owner.
 */
export async function initialise(program: ServerProgram, path: string, signal: AbortSignal): Promise<void> {
  if (existsSync(path)) return
  const partial = `${path}.partial`
  await rm(partial, { recursive: true, force: true })
  await mkdir(partial, { mode: 0o700 })
  await makeTemporaryFolder(partial)
  await makeSystemTables(program, partial, signal)
  await rm(temporaryFolder(partial), { recursive: true })
  await rename(partial, path)
}

async function makeSystemTables(program: ServerProgram, path: string, signal: AbortSignal): Promise<void> {
  const options = commonOptions(program, path)
  if (program.kind === 'mysql') return run(program, [...options, '--initialize-insecure'], '', signal)
  if (program.systemTables.length === 0) {
    throw new Error(
      `The server ${program.path} lacks the files that create its system tables (mariadb_system_tables.sql). Install its complete package, or set DATABASE_URL.`,
    )
  }
  const texts = await Promise.all(program.systemTables.map((file) => readFile(file, 'utf8')))
  const input = ['create database mysql;', 'use mysql;', ...texts, ''].join('\n')
  await run(program, [...options, '--bootstrap', '--skip-networking', '--skip-log-bin'], input, signal)
}

/**
 * Options for every start of a server on these files. The first one must stay first.
 *
 * Temporary files are stored beside the data: on start, MariaDB deletes the temporary files in its folder for them, and
 * in a shared one they would be another server's.
 */
export function commonOptions(program: ServerProgram, path: string): string[] {
  // As root, a server only runs with this option.
  const user = process.getuid?.() === 0 ? ['--user=root'] : []
  const folders = [`--datadir=${path}`, `--tmpdir=${temporaryFolder(path)}`]
  return ['--no-defaults', ...program.options, ...folders, ...user]
}

export async function makeTemporaryFolder(path: string): Promise<void> {
  await mkdir(temporaryFolder(path), { recursive: true, mode: 0o700 })
}

function temporaryFolder(path: string): string {
  return `${path}.tmp`
}

async function run(program: ServerProgram, args: string[], input: string, signal: AbortSignal) {
  const [command, ...words] = program.command
  const running = execute(command, [...words, ...args], { signal })
  // The program may exit before it has read everything; exit code and stderr show why.
  running.child.stdin?.on('error', () => undefined).end(input)
  await running.catch((error) => {
    if (signal.aborted) throw error
    const lines = error.stderr.trim().split('\n')
    const errors = lines.filter((line: string) => line.includes('[ERROR]'))
    const reason = (errors.length > 0 ? errors : lines).join('\n')
    throw new Error(`${program.path} could not create a new database (exit ${error.code}):\n${reason}`)
  })
}
