import { readdir, readFile, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { NthProcess } from './nthProcess.ts'

/** Whether a process runs; one that has ended, and that its parent has not yet waited for, doesn't. */
export async function isAlive(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => ') Z')
  return !/\) Z/.test(stat)
}

/** The worker processes of an Nth, the oldest first. */
export async function workersOf({ child }: Pick<NthProcess, 'child'>): Promise<number[]> {
  const children = await readFile(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')
  const pids = children.trim().split(' ').filter(Boolean).map(Number)
  const commands = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')),
  )
  return pids.filter((_, index) => commands[index]?.includes('main.js'))
}

/** The process of the private database in a directory. */
export async function databaseOf(directory: string): Promise<number> {
  return Number(await readFile(join(directory, 'server.pid'), 'utf8'))
}

/** How many connections of callers each of some processes has open, at the port of a URL. */
export async function connectionsAt(url: string, pids: number[]): Promise<number[]> {
  const inodes = await establishedAt(Number(new URL(url).port))
  return Promise.all(
    pids.map(async (pid) => {
      const files = await readdir(`/proc/${pid}/fd`).catch(() => [])
      const targets = await Promise.all(files.map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => '')))
      return targets.filter((target) => inodes.has(target)).length
    }),
  )
}

const ESTABLISHED = '01'

/** Sockets that are connected at a local port, as the names that their descriptors link to. */
async function establishedAt(port: number): Promise<Set<string>> {
  const [, ...lines] = (await readFile('/proc/net/tcp', 'utf8')).trim().split('\n')
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const sockets = lines.map((line) => line.trim().split(/\s+/))
  return new Set(
    sockets
      .filter(([, local, , state]) => local?.endsWith(suffix) && state === ESTABLISHED)
      .map((fields) => `socket:[${fields[9]}]`),
  )
}
