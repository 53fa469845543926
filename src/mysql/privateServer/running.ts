import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Target } from '../connections/target.ts'
import { isHeld } from './dataDirectory.ts'
import { commandLine } from './processes.ts'

const POLL_MS = 100
const STARTED_WITHIN_MS = 60_000

/**
 * Finds the private server that a running Nth has on a directory, and waits for one that is starting. Undefined: no Nth
 * runs on it.
 *
 * @throws {Error} if its server doesn't start in time
 */
export async function findRunningServer(directory: string, database: string): Promise<Target | undefined> {
  const deadline = performance.now() + STARTED_WITHIN_MS
  while (await isHeld(directory)) {
    const pid = Number(await readFile(join(directory, 'server.pid'), 'utf8').catch(() => ''))
    const command = (pid ? await commandLine(pid) : undefined) ?? ''
    const [, socketPath] = /--socket=(.+?) --pid-file=/.exec(command) ?? []
    if (socketPath && command.includes(`--datadir=${directory}`))
      return { socketPath, user: 'root', database }
    if (performance.now() > deadline)
      throw new Error(`The Nth that runs on ${directory} has no database server.`)
    await pause(POLL_MS)
  }
  return undefined
}
