// Everything at once, for minutes: whether memory and connections stay as they are, and all that is counted is exact.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { createConnection } from 'mysql2/promise'
import type { BenchOptions } from './bench.ts'
import { type Child, startProgram } from './children.ts'
import { openDatabase } from './database.ts'
import { ask } from './load/values.ts'
import {
  checkAnswers,
  checkConnections,
  checkDurations,
  checkNumbers,
  checkReservations,
} from './mixed/checks.ts'
import type { MixedJob, MixedReport } from './mixed/main.ts'
import { answersBetween, readMetrics } from './mixed/metrics.ts'
import { childrenOf } from './mixed/processes.ts'
import { creations, PREPARATION } from './mixed/requests.ts'
import {
  databaseProcess,
  HEAD,
  lineOf,
  megabytes,
  type Observed,
  sample,
  sampleUntil,
} from './mixed/samples.ts'
import { type Counted, sumOf } from './mixed/tally.ts'
import { SERVES, startNth } from './systems.ts'

const WORKERS = 2
/** Processes of clients, and what each has. */
const CLIENTS = 2
const CALLERS = 24
const STREAMERS = 20
/** Within this time, Nth must have noticed that its clients are gone. */
const CLOSED_WITHIN_MS = 10_000
const IDLE_MS = 20_000
/** Resident memory that a worker may have, in bytes. */
const MAX_MEMORY = 350e6

interface MixedOptions extends Pick<BenchOptions, 'say' | 'signal'> {
  minutes: number
}

/**
 * Runs a mixed load on two workers.
 *
 * @returns a report as Markdown, and what was wrong
 */
export async function mixed({ minutes, say, signal }: MixedOptions) {
  const directory = await mkdtemp(join(tmpdir(), 'nth-mixed-'))
  const database = await openDatabase(directory, { say, signal })
  const nth = startNth(
    { database: database.target },
    // Without a line for each request that is refused.
    { WORKERS: String(WORKERS), NTH_METRICS_PORT: '0', NTH_LOG_LEVEL: 'warn' },
  )
  const clients = Array.from({ length: CLIENTS }, () => startProgram('mixed/main.ts', [], { talks: true }))
  const endClients = () => Promise.all(clients.map(({ end }) => end()))
  signal.addEventListener('abort', endClients)
  const connection = await createConnection(database.target)
  try {
    const url = new URL(await nth.printed(SERVES))
    const metricsAt = await nth.printed(/Metrics: (\S+)\/metrics/)
    await ask(url, { query: PREPARATION, variables: {} })
    for (const creation of creations()) await ask(url, creation)
    const before = await readMetrics(metricsAt)

    let answers = 0
    const primary = nth.process.pid ?? 0
    const workers = childrenOf(primary)
    const observed: Observed = {
      primary,
      workers,
      database: databaseProcess(),
      port: Number(url.port),
      connection,
      answers: () => answers,
    }
    const job = { url: url.href, workers, seconds: minutes * 60, callers: CALLERS, streamers: STREAMERS }
    const start = await sample(observed)
    const counting = clients.map((client) =>
      count(client, job, (more) => {
        answers += more
      }),
    )
    const lines = [HEAD]
    const samples = await sampleUntil(Promise.all(counting), observed, (now, last) => {
      lines.push(lineOf(`minute ${lines.length}`, now, last))
      say(lines.at(-1) ?? '')
    })
    const counted = sumOf(await Promise.all(counting))
    await endClients()

    const left = await untilClosed(observed, metricsAt)
    const after = await readMetrics(metricsAt)
    const shown = answersBetween(before, after)
    const peaks = workers.map((_, place) => Math.max(...samples.map((one) => one.workers[place] ?? 0)))
    const closed = await sample(observed)
    const faults = [
      ...left,
      ...checkConnections(start, samples, closed),
      ...checkAnswers(counted.answers, shown),
      ...checkDurations(counted.answers, before, after),
      ...(await checkNumbers(counted.numbers, connection)),
      ...(await checkReservations(counted.numbers, connection, url)),
      ...peaks
        .filter((peak) => peak > MAX_MEMORY)
        .map((peak) => `a worker had ${megabytes(peak)} MB, more than ${megabytes(MAX_MEMORY)}`),
    ]
    await pause(IDLE_MS, undefined, { signal })
    lines.push(lineOf('idle', await sample(observed), closed))
    return { report: reportOf(lines, peaks, shown, counted, minutes), faults }
  } finally {
    await endClients()
    await connection.end()
    await nth.end()
    await database.close()
    await rm(directory, { recursive: true, force: true })
  }
}

/** Makes a process of clients do its job. Returns what it counted. */
function count(client: Child, job: MixedJob, onAnswers: (more: number) => void): Promise<Counted> {
  const counted = new Promise<Counted>((resolve, reject) => {
    client.process.on('message', (report: MixedReport) => {
      if ('answers' in report) onAnswers(report.answers)
      else if ('counted' in report) resolve(report.counted)
      else reject(new Error(report.fault))
    })
    client.ended.then((how) => reject(new Error(`The clients ended (${how}).`)))
  })
  client.process.send(job)
  return counted
}

/** Gauges that are 0 without clients. */
const OF_CLIENTS = ['nth_subscribers', 'nth_watched_names', 'nth_pending_changes']

/** Waits until nothing of the clients is left. Returns what is left nevertheless. */
async function untilClosed(observed: Observed, metricsAt: string): Promise<string[]> {
  const from = performance.now()
  while (true) {
    const metrics = await readMetrics(metricsAt)
    const { clients } = await sample(observed)
    const left = [
      ...(clients === 0 ? [] : [`${clients} connections of clients are left`]),
      ...OF_CLIENTS.filter((name) => metrics.get(name) !== 0).map(
        (name) => `${name} is ${metrics.get(name)}`,
      ),
    ]
    if (left.length === 0 || performance.now() - from > CLOSED_WITHIN_MS) return left
    await pause(100)
  }
}

function reportOf(
  lines: readonly string[],
  peaks: readonly number[],
  shown: Record<string, number>,
  { answers, numbers }: Counted,
  minutes: number,
): string {
  const kinds = Object.keys(shown).filter((kind) => !/^\d/.test(kind))
  const issued = Object.values(numbers).reduce((sum, values) => sum + values.length, 0)
  const of = (kind: string, place: number) => answers[`${place} ${kind}`] ?? 0
  return [
    '# A mixed load',
    `Two workers, ${CLIENTS * CALLERS} connections and ${CLIENTS * STREAMERS} subscriptions that are opened and closed, for ${minutes} minutes. The highest resident memory of each worker: ${peaks.map(megabytes).join(' and ')} MB. ${issued} numbers were issued.`,
    lines.join('\n'),
    [
      '| answers | worker 1, clients | worker 2, clients | sum, metrics |',
      '| --- | ---: | ---: | ---: |',
      ...kinds.sort().map((kind) => `| ${kind} | ${of(kind, 0)} | ${of(kind, 1)} | ${shown[kind]} |`),
    ].join('\n'),
    '',
  ].join('\n\n')
}
