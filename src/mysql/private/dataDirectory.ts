import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
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
 * Two processes that find the same dead holder at the same moment could both go on; the database server's
 * own locks on its files stop the second one then.
 *
 * @throws {Error} saying who holds it
 */
export async function holdDirectory(path: string): Promise<HeldDirectory> {
  await mkdir(path, { recursive: true, mode: 0o700 })
  const file = join(path, 'nth.lock')
  const holder: Holder = { ...(await thisProcess()), since: new Date().toISOString() }
  while (true) {
    try {
      await writeFile(file, JSON.stringify(holder), { flag: 'wx' })
      return { path, giveBack: () => rm(file, { force: true }) }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    const other = await readHolder(file)
    if (other && (await isRunning(other))) {
      throw new Error(
        `${path} is in use by another Nth, process ${other.pid}, running since ${other.since}. Stop that one, or choose another directory with NTH_DATA_DIR.`,
      )
    }
    await rm(file, { force: true })
  }
}

async function readHolder(file: string): Promise<Holder | undefined> {
  try {
    return JSON.parse(await readFile(file, 'utf8'))
  } catch {
    // Gone in the meantime, or cut short when its writer was killed: nobody holds it.
    return undefined
  }
}
