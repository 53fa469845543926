import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { link, mkdir, readFile, rename, rm, stat, statfs, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'

interface Holder {
  pid: number
  beganAt: string
  since: string
}

/**
 * Locks a data directory for this process, and creates it if needed. If the holder was killed, its process no longer
 * exists, so the directory is free again at once.
 *
 * The lock is a file that appears complete, under its name, for one process only (link fails if the name is taken). A
 * stale lock is renamed before the final check: of several processes that find it, only one renames it.
 *
 * @returns a function that releases it
 * @throws {Error} stating which process holds it, or why it can't be used
 */
export async function holdDirectory(path: string): Promise<() => Promise<void>> {
  try {
    await makeDirectory(path)
    await assertPrivate(path)
    return await hold(path)
  } catch (error) {
    throw unusable(path, error)
  }
}

/** Whether a process holds a directory. */
export async function isHeld(path: string): Promise<boolean> {
  const holder = await readHolder(lockIn(path))
  return holder !== undefined && (await isRunning(holder))
}

const lockIn = (path: string) => join(path, 'nth.lock')

/** Explains a file system error to whoever chose the directory. Other errors are returned unchanged. */
export function unusable(path: string, error: unknown): unknown {
  if (!(error instanceof Error)) return error
  const { syscall = '', message }: NodeJS.ErrnoException = error
  if (syscall === '' || syscall === 'connect' || syscall.startsWith('spawn')) return error
  const text = `The data directory ${path} can't be used: ${message}. Choose another directory with NTH_DATA_DIR.`
  return new Error(text, { cause: error })
}

/** Without mkdir's option `recursive`, which never returns where nothing can be created, as in /proc. */
async function makeDirectory(path: string): Promise<void> {
  await mkdir(path, { mode: 0o700 }).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code === 'EEXIST') return
    const parent = dirname(path)
    if (error.code !== 'ENOENT' || existsSync(parent)) throw error
    await makeDirectory(parent)
    await makeDirectory(path)
  })
}

/** Anyone who can write to the directory can make this process, and its database, run or overwrite anything. */
async function assertPrivate(path: string): Promise<void> {
  const { mode, uid } = await stat(path)
  const self = process.getuid?.()
  if (self !== undefined && uid !== self) {
    throw new Error(
      `The data directory ${path} belongs to another user (id ${uid}; this process runs as ${self}). Change its owner (chown ${self} ${path}), or choose another directory with NTH_DATA_DIR.`,
    )
  }
  if ((mode & 0o022) !== 0) {
    throw new Error(
      `Other users can write to the data directory ${path}. Remove that permission (chmod go-w ${path}), or choose another directory with NTH_DATA_DIR.`,
    )
  }
}

async function hold(path: string): Promise<() => Promise<void>> {
  const { pid } = process
  const file = lockIn(path)
  const draft = `${file}.${pid}`
  const aside = `${draft}.dead`
  const self: Holder = { pid, beganAt: await beginning(pid), since: new Date().toISOString() }
  try {
    await writeFile(draft, JSON.stringify(self))
    while (!(await linked(draft, file))) {
      const holder = await readHolder(file)
      if (holder && (await isRunning(holder)))
        throw new Error(
          `${path} is in use by another Nth, process ${holder.pid}, running since ${holder.since}. Stop it, or choose another directory with NTH_DATA_DIR.`,
        )
      await rename(file, aside).catch(unlessMissing)
      const moved = await readHolder(aside)
      // Another process locked it between the two checks: restore its lock.
      if (moved && (await isRunning(moved))) await linked(aside, file)
      await rm(aside, { force: true })
    }
  } finally {
    await rm(draft, { force: true })
  }
  return () => rm(file, { force: true })
}

async function linked(from: string, to: string): Promise<boolean> {
  const failure = await link(from, to).catch((error: NodeJS.ErrnoException) => error)
  if (failure && failure.code !== 'EEXIST') throw failure
  return !failure
}

async function readHolder(file: string): Promise<Holder | undefined> {
  const text = await readFile(file, 'utf8').catch(unlessMissing)
  try {
    return text === undefined ? undefined : JSON.parse(text)
  } catch {
    // Truncated when the machine failed: its writer is gone, too.
    return undefined
  }
}

function unlessMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

/** A table grows by up to 4 MB at a time. */
const ROOM_BYTES = 16 * 2 ** 20

/** Whether the disk of a data directory has room for more rows. */
export async function hasRoom(directory: string): Promise<boolean> {
  const { bavail, bsize } = await statfs(directory)
  return bavail * bsize >= ROOM_BYTES
}

export const execute = promisify(execFile)

const START_TIME = 19

/** When a process started, as reported by the system; empty if unknown. */
async function beginning(pid: number): Promise<string> {
  const fields = await statFields(pid)
  return fields?.[START_TIME] ?? (await ps(pid, 'lstart')) ?? ''
}

/**
 * Whether a process of this user still runs: `beganAt` distinguishes it from a later one with the same id. If the system
 * hides it, as from services of systemd with `ProtectProc=invisible`, it counts as running: a private database that is
 * used twice is worse than a start that is refused.
 */
async function isRunning({ pid, beganAt }: Holder): Promise<boolean> {
  const startTime = await beginning(pid)
  return startTime === '' ? send(pid, 0) === 'sent' : (await isAlive(pid)) && startTime === beganAt
}

/** The command line of a running process, its words separated by spaces; undefined if there is none. */
export async function commandLine(pid: number): Promise<string | undefined> {
  if (!(await isAlive(pid))) return undefined
  const words = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => undefined)
  return words?.replaceAll('\0', ' ') ?? ps(pid, 'command')
}

const POLL_MS = 20

/** Ends a process with SIGTERM, then with SIGKILL if it still runs after `timeoutMs`. */
export async function endProcess(pid: number, timeoutMs: number): Promise<void> {
  send(pid, 'SIGTERM')
  const deadline = performance.now() + timeoutMs
  while (await isAlive(pid)) {
    if (performance.now() > deadline) send(pid, 'SIGKILL')
    await pause(POLL_MS)
  }
}

async function isAlive(pid: number): Promise<boolean> {
  if (send(pid, 0) === 'missing') return false
  // A killed process stays in the list of processes until its parent waits for it, which some parents never do.
  return (await statFields(pid))?.[0] !== 'Z'
}

/** Sends a signal; 0 sends none. `denied`: the process is another user's. */
function send(pid: number, signal: NodeJS.Signals | 0): 'sent' | 'missing' | 'denied' {
  try {
    process.kill(pid, signal)
    return 'sent'
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return 'missing'
    if (signal !== 0) throw error
    return 'denied'
  }
}

/** The fields of Linux's /proc/pid/stat from the state on; the name before it may contain anything. */
async function statFields(pid: number): Promise<string[] | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined)
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
}

async function ps(pid: number, column: string): Promise<string | undefined> {
  const shown = await execute('ps', ['-o', `${column}=`, '-p', String(pid)]).catch(() => undefined)
  return shown?.stdout.trim()
}
