import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { createConnection } from 'mysql2/promise'
import { backoffMs, RESTART } from '../../core/backoff.ts'
import type { Notices } from '../../core/notices.ts'
import type { Target } from '../connections/target.ts'
import type { ServerProgram } from './findServer.ts'
import { commonOptions, makeTemporaryFolder, withFreeSpace } from './initialise.ts'
import { logSizeMb } from './memory.ts'
import { commandLine, endProcess } from './processes.ts'
import { makeSocketFolder } from './socket.ts'

/** A database server that runs as a child of this process. */
export type PrivateServer = Awaited<ReturnType<typeof startPrivateServer>>

export interface PrivateServerOptions {
  program: ServerProgram
  /** The folder that holds its socket and its log. */
  directory: string
  /** The folder that holds its data. */
  data: string
  /** Memory for its data, in MB. */
  memoryMb: number
  notices: Notices
  signal: AbortSignal
}

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
  const pidFile = join(directory, 'server.pid')
  const { socketPath, removeSocketFolder } = await makeSocketFolder(directory)
  const target: Omit<Target, 'database'> = { socketPath, user: 'root' }
  const [command, ...args] = commandFor(program, [
    ...commonOptions(program, data),
    ...memoryOptions(program, memoryMb),
    `--socket=${socketPath}`,
    `--pid-file=${pidFile}`,
    `--log-error=${join(directory, 'server.log')}`,
  ])
  let child: ChildProcess
  let isReady = false
  let isStopping = false
  /** Exits since it was last ready. */
  let exits = 0

  async function start(): Promise<void> {
    await endOrphan(pidFile, data)
    if (isStopping) return
    await makeTemporaryFolder(data)
    // Not in the terminal's process group: Ctrl-C is for this process, which stops the server last.
    child = spawn(command, args, { stdio: 'ignore', detached: true })
    child.once('exit', (code, by) => void restart(`exited unexpectedly (${by ?? `exit ${code}`})`))
    child.once('error', (error) => void restart(`could not be started (${error.message})`))
    await untilReady(target, child, signal)
    exits = 0
  }

  async function restart(why: string): Promise<void> {
    if (isStopping || !isReady) return
    notices.info(`The database server ${why}; restarting it.`)
    await pause(backoffMs(RESTART, ++exits))
    // A failed start is another exit, which calls this again.
    if (!isStopping) await start().catch(() => undefined)
  }

  async function stop(): Promise<void> {
    isStopping = true
    if (child.exitCode === null && child.signalCode === null && child.pid !== undefined) {
      const exited = once(child, 'exit')
      await endProcess(child.pid, STOPPED_WITHIN_MS)
      await exited
    }
    await removeSocketFolder()
  }

  try {
    await start()
    isReady = true
  } catch (error) {
    await stop()
    throw signal.aborted
      ? error
      : await withFreeSpace(await startError(error, directory), directory, logSizeMb(memoryMb))
  }
  return { target, stop }
}

const SETPRIV = '/usr/bin/setpriv'

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

function memoryOptions({ kind }: ServerProgram, memoryMb: number): string[] {
  const log = kind === 'mariadb' ? 'innodb-log-file-size' : 'loose-innodb-redo-log-capacity'
  return [`--innodb-buffer-pool-size=${memoryMb}M`, `--${log}=${logSizeMb(memoryMb)}M`]
}

/** Ends a server left running on these files, if the process with the stored id is one. */
async function endOrphan(pidFile: string, data: string): Promise<void> {
  const pid = Number(await readFile(pidFile, 'utf8').catch(() => ''))
  if (!pid) return
  const command = await commandLine(pid)
  if (command?.includes(`--datadir=${data}`)) await endProcess(pid, STOPPED_WITHIN_MS)
}

async function untilReady(target: PrivateServer['target'], child: ChildProcess, signal: AbortSignal) {
  const deadline = performance.now() + READY_WITHIN_MS
  while (true) {
    signal.throwIfAborted()
    try {
      const connection = await createConnection(target)
      return await connection.end()
    } catch (error) {
      const { pid, exitCode, signalCode } = child
      if (pid === undefined) throw new Error('its program could not be run')
      if (exitCode !== null || signalCode !== null) {
        throw new Error(`it exited (${signalCode ?? `exit ${exitCode}`})`)
      }
      if (performance.now() > deadline) {
        throw new Error(`it did not answer within ${READY_WITHIN_MS / 1000} seconds`, { cause: error })
      }
      await pause(POLL_MS)
    }
  }
}

async function startError(error: unknown, directory: string): Promise<Error> {
  const file = join(directory, 'server.log')
  const lines = (await readFile(file, 'utf8').catch(() => '')).trim().split('\n').slice(-5)
  const { message } = error as Error
  const text = `The database server could not be started: ${message}. Last lines of its log, ${file}:\n${lines.join('\n')}`
  return new Error(text, { cause: error })
}
