// What the kernel knows of processes and their connections (Linux).
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'

/** Its resident memory, in bytes. */
export function memoryOf(pid: number): number {
  return 1024 * Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
}

/** Clock ticks of the kernel in a second. */
const TICKS_PER_SECOND = 100

/** The processor time that it has used, in seconds. */
export function processorTimeOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
}

/** The processes that it has started, in order. */
export function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
}

export function filesOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length
}

/** The connections of a server on 127.0.0.1 that a process has: by their inodes, the ports of the clients. */
export function connectionsOf(serverPort: number): Map<string, number> {
  const ports = new Map<string, number>()
  for (const line of readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1)) {
    const [, local = '', remote = '', , , , , , , inode = ''] = line.trim().split(/\s+/)
    // Those that no process has any more have the inode 0.
    if (portIn(local) === serverPort && portIn(remote) !== 0 && inode !== '0')
      ports.set(inode, portIn(remote))
  }
  return ports
}

/** How long connections are collected, which are looked for together. */
const COLLECTED_MS = 100

/** Returns a function that finds which of some workers, by its place, serves a connection that was answered. */
export function createWorkerFinder(serverPort: number, workers: readonly number[]) {
  let scan: Promise<Map<number, number>> | undefined

  function found(): Map<number, number> {
    scan = undefined
    const ports = connectionsOf(serverPort)
    const places = new Map<number, number>()
    for (const [place, pid] of workers.entries())
      for (const inode of socketsOf(pid)) {
        const port = ports.get(inode)
        if (port !== undefined) places.set(port, place)
      }
    return places
  }

  return async (clientPort: number): Promise<number> => {
    scan ??= pause(COLLECTED_MS).then(found)
    const place = (await scan).get(clientPort)
    if (place === undefined) throw new Error(`No worker has the connection from port ${clientPort}.`)
    return place
  }
}

function socketsOf(pid: number): string[] {
  return readdirSync(`/proc/${pid}/fd`).flatMap((name) => {
    try {
      return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${name}`))?.[1] ?? []
    } catch {
      // Closed meanwhile.
      return []
    }
  })
}

function portIn(address: string): number {
  return Number.parseInt(address.split(':')[1] ?? '', 16)
}
