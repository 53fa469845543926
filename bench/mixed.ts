// Everything at once, for minutes: whether memory and connections stay as they are, and every number is right.
import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { openStreams } from './live.ts'
import { measure, touch } from './load.ts'
import type { Options } from './options.ts'
import { childrenOf, filesOf, memoryOf, processorTimeOf } from './processes.ts'
import { tableOf } from './report.ts'
import { type Progress, withResources } from './resources.ts'
import { startNth } from './systems.ts'
import { numbered, type Workload } from './workloads.ts'

const WORKERS = 2
const STREAMS = 40
/** How long connections and subscriptions are used before others are opened. */
const SLICE_MS = 10_000
/** Within this time, Nth must have noticed that its clients are gone. */
const CLOSED_WITHIN_MS = 10_000
/** Resident memory that a worker may have, in bytes. */
const MAX_MEMORY = 350e6
const MB = 1e6

/** What is sent at once. Each has names of its own, as each checks all numbers of its names. */
const PARTS: readonly Workload[] = [
  part('hot', 'increment', ['hot']),
  part('uniform', 'increment', numbered('counter', 10_000)),
  part('carts and reads', 'incrementMany', numbered('line', 100), 0.5),
  part('keys', 'withKey', numbered('keyed', 1000)),
  part('text', 'inText', numbered('text', 1000)),
  part('boards', 'nextInSequence', ['MYBOARD', 'YOURBOARD']),
]

function part(id: string, change: Workload['change'], names: string[], readShare = 0): Workload {
  return { id, title: id, change, names, readShare, connections: 8, systems: ['nth'] }
}

/**
 * Runs a mixed load on two workers.
 *
 * @returns Markdown
 * @throws {Error} at a wrong number, too much memory, or a connection or file that is left
 */
export function mixed({ minutes, ...options }: Options & Progress): Promise<string> {
  const { say, signal } = options
  return withResources(options, async (resources) => {
    const target = await resources.database()
    const nth = resources.keep(await startNth(target, { WORKERS: String(WORKERS), NTH_LOG_LEVEL: 'warn' }))
    // It has one address.
    const url = nth.urls[0] as string
    const urls = [new URL(url)]
    const workers = childrenOf(nth.pid)
    const connection = await createConnection(target)
    resources.keep({ end: () => connection.end() })
    const filesAtStart = workers.map(filesOf)
    for (const workload of PARTS) await touch({ urls, workload })

    const peaks = workers.map(() => 0)
    const rows: string[][] = []
    let answers = 0
    let last = { at: performance.now(), answers: 0, processorTime: workers.map(processorTimeOf).reduce(sum) }
    const until = last.at + minutes * 60_000

    async function row(title: string): Promise<void> {
      const now = { at: performance.now(), answers, processorTime: workers.map(processorTimeOf).reduce(sum) }
      const more = now.answers - last.answers
      rows.push([
        title,
        ((1000 * more) / (now.at - last.at)).toFixed(0),
        more === 0 ? '' : ((1e6 * (now.processorTime - last.processorTime)) / more).toFixed(0),
        workers.map((pid) => (memoryOf(pid) / MB).toFixed(0)).join(', '),
        String(clientsOf(url)),
        String(await databaseConnections()),
      ])
      last = now
      say(rows.at(-1)?.join(' | ') ?? '')
    }

    async function databaseConnections(): Promise<number> {
      const [[status]] = await connection.query<RowDataPacket[]>("show status like 'Threads_connected'")
      // Without the one of this process.
      return Number(status?.Value) - 1
    }

    while (performance.now() < until) {
      signal.throwIfAborted()
      const streams = await openStreams(url, ['hot', ...numbered('counter', STREAMS - 1)], STREAMS)
      const seconds = Math.max(1, Math.min(SLICE_MS, until - performance.now()) / 1000)
      const parts = PARTS.map((workload) => measure({ urls, workload, warmupSeconds: 0, seconds }))
      for (const { requestsPerSecond } of await Promise.all(parts)) answers += requestsPerSecond * seconds
      if (streams.some(({ wentBack }) => wentBack))
        throw new Error('A subscriber received an older state after a newer one.')
      for (const [place, pid] of workers.entries()) peaks[place] = Math.max(peaks[place] ?? 0, memoryOf(pid))
      if (performance.now() - last.at > 60_000 - SLICE_MS / 2) await row(`minute ${rows.length + 1}`)
      for (const stream of streams) stream.close()
    }
    const connectionsAtEnd = await databaseConnections()
    const closedBy = performance.now() + CLOSED_WITHIN_MS
    while (clientsOf(url) > 0 && performance.now() < closedBy) await pause(100)
    await row('idle')

    const filesLeft = workers.map(filesOf).reduce(sum) - filesAtStart.reduce(sum) - connectionsAtEnd
    const faults = [
      ...(clientsOf(url) > 0 ? [`${clientsOf(url)} connections of clients are left`] : []),
      ...(filesLeft > 0 ? [`the workers have ${filesLeft} more files than at the start`] : []),
      ...peaks
        .filter((peak) => peak > MAX_MEMORY)
        .map((peak) => `a worker had ${(peak / MB).toFixed(0)} MB, more than ${MAX_MEMORY / MB}`),
    ]
    const head = ['', 'answers/s', 'CPU µs an answer', 'workers MB', 'clients', 'database connections']
    const report = [
      '# A mixed load',
      `${WORKERS} workers, ${minutes} minutes. The highest resident memory of each worker: ${peaks.map((peak) => (peak / MB).toFixed(0)).join(' and ')} MB.`,
      tableOf(head, rows),
      '',
    ].join('\n\n')
    if (faults.length > 0) throw new Error(`${faults.join('; ')}\n${report}`)
    return report
  })
}

const sum = (a: number, b: number) => a + b

/** The number of connections that a server on 127.0.0.1 has (Linux). */
function clientsOf(url: string): number {
  const port = Number(new URL(url).port).toString(16).toUpperCase().padStart(4, '0')
  return readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .filter((line) => {
      const [, local, remote, , , , , , , inode] = line.trim().split(/\s+/)
      // Those that listen have the port 0 on the other side, and those that no process has any more the inode 0.
      return local?.endsWith(`:${port}`) && !remote?.endsWith(':0000') && inode !== '0'
    }).length
}
