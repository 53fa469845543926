import { link, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
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
 * @throws {Error} saying who holds it
 */
export async function holdDirectory(path: string): Promise<HeldDirectory> {
  await mkdir(path, { recursive: true, mode: 0o700 })
  const file = join(path, 'nth.lock')
  const own = `${file}.${process.pid}`
  const aside = `${own}.dead`
  const self: Holder = { ...(await thisProcess()), since: new Date().toISOString() }
  await writeFile(own, JSON.stringify(self))
  try {
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
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
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
