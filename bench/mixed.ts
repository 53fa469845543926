// Everything at once, for minutes: whether memory and connections stay as they are, and every number is right.
import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { type Connection, createConnection, type RowDataPacket } from 'mysql2/promise'
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
const SLICES_PER_MINUTE = 6
/** Within this time, Nth must have noticed that its clients are gone. */
const CLOSED_WITHIN_MS = 10_000
/** Resident memory that a worker may have, in bytes. */
const MAX_MEMORY = 350e6

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
    const connection = await createConnection(target)
    resources.keep({ end: () => connection.end() })
    // It has one address.
    const observed = { url: nth.urls[0] as string, workers: childrenOf(nth.pid), connection }
    const start = await sample(observed, 0)
    for (const workload of PARTS) await touch({ urls: [new URL(observed.url)], workload })

    const samples = [await sample(observed, 0)]
    const until = performance.now() + minutes * 60_000
    while (performance.now() < until) {
      signal.throwIfAborted()
      const seconds = Math.max(1, Math.min(SLICE_MS, until - performance.now()) / 1000)
      samples.push(await runSlice(observed, seconds, samples.at(-1)?.answers ?? 0))
      say(rowOf(samples.length - 1, samples).join(' | '))
    }
    let closed = await sample(observed, 0)
    const closedBy = performance.now() + CLOSED_WITHIN_MS
    while (closed.clients > 0 && performance.now() < closedBy) {
      await pause(100)
      closed = await sample(observed, 0)
    }

    const peaks = observed.workers.map((_, place) =>
      Math.max(...samples.map(({ memory }) => memory[place] ?? Number.NaN)),
    )
    const filesLeft = closed.files - start.files
    const faults = [
      ...(closed.clients > 0 ? [`${closed.clients} connections of clients are left`] : []),
      ...(filesLeft > 0 ? [`the workers have ${filesLeft} more files than at the start`] : []),
      ...peaks
        .filter((peak) => !(peak <= MAX_MEMORY))
        .map((peak) => `a worker had ${megabytes(peak)} MB, more than ${megabytes(MAX_MEMORY)}`),
    ]
    if (faults.length > 0) throw new Error(faults.join('; '))
    const everyMinute = [...samples.keys()].filter(
      (index) => index > 0 && (index % SLICES_PER_MINUTE === 0 || index === samples.length - 1),
    )
    return [
      '# A mixed load',
      `${WORKERS} workers, ${minutes} minutes. The highest resident memory of each worker: ${peaks.map(megabytes).join(' and ')} MB.`,
      tableOf(
        [
          'Seconds',
          'answers/s',
          'CPU µs of workers an answer',
          'workers MB',
          'clients',
          'database connections',
        ],
        everyMinute.map((index) => rowOf(index, samples)),
      ),
      '',
    ].join('\n\n')
  })
}

/** What is sampled: the workers' processes, where they serve, and a connection to their database. */
interface Observed {
  url: string
  workers: readonly number[]
  connection: Connection
}

interface Sample {
  at: number
  /** How many answers the clients have received so far. */
  answers: number
  /** Processor time that the workers have used, in seconds. */
  processorTime: number
  /** Resident memory of each worker, in bytes. */
  memory: number[]
  clients: number
  databaseConnections: number
  /** Open files of the workers, without their connections to the database. */
  files: number
}

/** Sends everything on connections and subscriptions that are opened for it. Returns a sample before they are closed. */
async function runSlice(observed: Observed, seconds: number, answersBefore: number): Promise<Sample> {
  const urls = [new URL(observed.url)]
  const streams = await openStreams(observed.url, ['hot', ...numbered('counter', STREAMS - 1)], STREAMS)
  const parts = PARTS.map((workload) => measure({ urls, workload, warmupSeconds: 0, seconds }))
  const rates = (await Promise.all(parts)).map(({ requestsPerSecond }) => requestsPerSecond)
  const after = await sample(observed, answersBefore + rates.reduce(sum) * seconds)
  for (const stream of streams) stream.close()
  if (streams.some(({ wentBack }) => wentBack))
    throw new Error('A subscriber received an older state after a newer one.')
  return after
}

async function sample({ url, workers, connection }: Observed, answers: number): Promise<Sample> {
  const [[status]] = await connection.query<RowDataPacket[]>("show status like 'Threads_connected'")
  // Without the one of this process.
  const databaseConnections = Number(status?.Value) - 1
  return {
    at: performance.now(),
    answers,
    processorTime: workers.map(processorTimeOf).reduce(sum),
    memory: workers.map(memoryOf),
    clients: clientsOf(url),
    databaseConnections,
    files: workers.map(filesOf).reduce(sum) - databaseConnections,
  }
}

/** A sample beside the one of a minute before. */
function rowOf(index: number, samples: readonly Sample[]): string[] {
  const [first, before, now] = [samples[0], samples[Math.max(0, index - SLICES_PER_MINUTE)], samples[index]]
  if (!first || !before || !now) return []
  const answers = now.answers - before.answers
  return [
    ((now.at - first.at) / 1000).toFixed(0),
    ((1000 * answers) / (now.at - before.at)).toFixed(0),
    ((1e6 * (now.processorTime - before.processorTime)) / answers).toFixed(0),
    now.memory.map(megabytes).join(', '),
    String(now.clients),
    String(now.databaseConnections),
  ]
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(0)
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
