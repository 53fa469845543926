import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import type { Connection, RowDataPacket } from 'mysql2/promise'
import { childrenOf, connectionsOf, filesOf, memoryOf, processorTimeOf } from './processes.ts'

/** What is looked at, again and again. */
export interface Observed {
  primary: number
  workers: readonly number[]
  database: number
  /** Where the workers listen. */
  port: number
  connection: Connection
  /** How many answers clients have got so far. */
  answers(): number
}

/** The state at a time. */
export interface Sample {
  at: number
  answers: number
  /** Resident memory in bytes. */
  primary: number
  workers: number[]
  database: number
  /** Processor time that the workers and the database have used, in seconds. */
  processorTime: number
  /** Connections of clients. */
  clients: number
  /** Connections to the database, without the benchmark's own. */
  toDatabase: number
  /** Open files of all workers. */
  files: number
}

const SAMPLE_MS = 5000
const MINUTE_MS = 60_000
const MB = 1e6

export async function sample({
  primary,
  workers,
  database,
  port,
  connection,
  answers,
}: Observed): Promise<Sample> {
  const [rows] = await connection.query<RowDataPacket[]>("show status like 'Threads_connected'")
  return {
    at: performance.now(),
    answers: answers(),
    primary: memoryOf(primary),
    workers: workers.map(memoryOf),
    database: memoryOf(database),
    processorTime: [...workers, database].reduce((sum, pid) => sum + processorTimeOf(pid), 0),
    clients: connectionsOf(port).size,
    toDatabase: Number(rows[0]?.Value) - 1,
    files: workers.reduce((sum, pid) => sum + filesOf(pid), 0),
  }
}

/**
 * Samples until something has ended.
 *
 * @param onMinute called with the last sample of each minute, and the one of the minute before
 */
export async function sampleUntil(
  ended: Promise<unknown>,
  observed: Observed,
  onMinute: (now: Sample, before: Sample) => void,
): Promise<Sample[]> {
  let isOver = false
  const over = ended.then(
    () => (isOver = true),
    () => (isOver = true),
  )
  let before = await sample(observed)
  const samples = [before]
  while (true) {
    await Promise.race([over, pause(SAMPLE_MS, undefined, { ref: false })])
    if (isOver) break
    const now = await sample(observed)
    samples.push(now)
    if (now.at - before.at < MINUTE_MS) continue
    onMinute(now, before)
    before = now
  }
  // The last minute may be some seconds short.
  const last = samples.at(-1) ?? before
  if (last.at - before.at > MINUTE_MS / 2) onMinute(last, before)
  return samples
}

/** The private server of this process. */
export function databaseProcess(): number {
  const found = childrenOf(process.pid).find((pid) =>
    /^(mariadbd|mysqld)/.test(readFileSync(`/proc/${pid}/comm`, 'utf8')),
  )
  if (found === undefined) throw new Error('The process of the database was not found.')
  return found
}

export const HEAD = `| | answers/s | CPU µs an answer | primary MB | workers MB | database MB | client connections | database connections | files of workers |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |`

export function lineOf(title: string, now: Sample, before: Sample): string {
  const answers = now.answers - before.answers
  const cells = [
    title,
    ((1000 * answers) / (now.at - before.at)).toFixed(0),
    answers === 0 ? '' : ((1e6 * (now.processorTime - before.processorTime)) / answers).toFixed(0),
    megabytes(now.primary),
    now.workers.map(megabytes).join(' '),
    megabytes(now.database),
    now.clients,
    now.toDatabase,
    now.files,
  ]
  return `| ${cells.join(' | ')} |`
}

export function megabytes(bytes: number): string {
  return (bytes / MB).toFixed(0)
}
