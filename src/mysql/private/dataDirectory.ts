import { link, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { exists } from './files.ts'
import { isRunning, type ProcessIdentity, thisProcess } from './processes.ts'

/** A directory that this process alone uses until it gives it back. */
export interface HeldDirectory {
  path: string
  giveBack(): Promise<void>
}

interface Holder extends ProcessIdentity {
  since: string
}

/**
 * Takes a data directory for this process, making it if needed. A holder that was killed is recognised by
 * its process being gone, so the directory is free again at once.
 *
 * The lock is a file that appears complete, under its name, for one process only (link fails if the name is
 * taken), and that is moved aside before it is judged dead for good: of several that find it dead, one moves it.
 *
 * @throws {Error} saying who holds it, or why it can't be used
 */
export async function holdDirectory(path: string): Promise<HeldDirectory> {
  try {
    await makeDirectory(path)
    await assertPrivate(path)
    return await hold(path)
  } catch (error) {
    throw unusable(path, error)
  }
}

/** What an error of the file system means for whoever chose the directory. Other errors say it themselves. */
export function unusable(path: string, error: unknown): unknown {
  if (!(error instanceof Error)) return error
  const { syscall = '', message }: NodeJS.ErrnoException = error
  if (syscall === '' || syscall === 'connect' || syscall.startsWith('spawn')) return error
  const text = `The data directory ${path} can't be used: ${message}. Choose another directory with NTH_DATA_DIR.`
  return new Error(text, { cause: error })
}

/** Not by mkdir's option `recursive`: it never ends where nothing can be made, as in /proc. */
async function makeDirectory(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 })
  } catch (error) {
    const code = codeOf(error)
    if (code === 'EEXIST') return
    const parent = dirname(path)
    if (code !== 'ENOENT' || (await exists(parent))) throw error
    await makeDirectory(parent)
    await makeDirectory(path)
  }
}

/** Whoever may write to the directory can have this process, and its database, run and overwrite what they like. */
async function assertPrivate(path: string): Promise<void> {
  const { mode, uid } = await stat(path)
  const self = process.getuid?.()
  if (self !== undefined && uid !== self) {
    throw new Error(
      `The data directory ${path} belongs to another user (id ${uid}; this process runs as ${self}). Give it to this one (chown ${self} ${path}), or choose another directory with NTH_DATA_DIR.`,
    )
  }
  if ((mode & 0o022) !== 0) {
    throw new Error(
      `Other users may write to the data directory ${path}. Forbid it (chmod go-w ${path}), or choose another directory with NTH_DATA_DIR.`,
    )
  }
}

async function hold(path: string): Promise<HeldDirectory> {
  const file = join(path, 'nth.lock')
  const own = `${file}.${process.pid}`
  const aside = `${own}.dead`
  const self: Holder = { ...(await thisProcess()), since: new Date().toISOString() }
  try {
    await writeFile(own, JSON.stringify(self))
    while (!(await linked(own, file))) {
      const holder = await readHolder(file)
      if (holder && (await isRunning(holder))) throw new Error(inUse(path, holder))
      await rename(file, aside).catch(unlessMissing)
      const moved = await readHolder(aside)
      // Somebody took it between the two looks: it is given back to them.
      if (moved && (await isRunning(moved))) await linked(aside, file)
      await rm(aside, { force: true })
    }
  } finally {
    await rm(own, { force: true })
  }
  return { path, giveBack: () => rm(file, { force: true }) }
}

function inUse(path: string, { pid, since }: Holder): string {
  return `${path} is in use by another Nth, process ${pid}, running since ${since}. Stop that one, or choose another directory with NTH_DATA_DIR.`
}

async function linked(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to)
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw error
  }
}

async function readHolder(file: string): Promise<Holder | undefined> {
  const text = await readFile(file, 'utf8').catch(unlessMissing)
  try {
    return text === undefined ? undefined : JSON.parse(text)
  } catch {
    // Cut short when the machine failed: its writer is gone, too.
    return undefined
  }
}

function unlessMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

function codeOf(error: unknown): string | undefined {
  // What the system adds to its errors.
  return error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
}
