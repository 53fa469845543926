import { readFileSync } from 'node:fs'
import { availableParallelism, cpus, totalmem } from 'node:os'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import type { Generator } from './generator.ts'
import type { Figures } from './load.ts'
import type { Options } from './options.ts'
import { childrenOf, ROOT } from './processes.ts'
import { medianOf, tableOf } from './report.ts'
import { type Progress, type Resources, withResources } from './resources.ts'
import type { Running, System } from './systems.ts'
import type { Workload } from './workloads.ts'

const NTH_PACKAGES = ['graphql', 'graphql-yoga', 'graphql-jit', '@pothos/core', 'mysql2']
const PEER_PACKAGES = [
  'graphql',
  'graphql-yoga',
  'mercurius',
  'graphql-jit',
  'mysql2',
  'drizzle-orm',
  'ioredis',
]

/** What a system did with a workload, round by round. */
interface Result {
  workload: Workload
  system: System
  rounds: Figures[]
}

type Served = { system: System } & Running

/**
 * Starts all systems and measures them in turn, round by round.
 *
 * @returns Markdown
 * @throws {Error} at the first wrong number or answer of any of them
 */
export function bench(options: Options & Progress): Promise<string> {
  const { systems, workloads, say, signal } = options
  return withResources(options, async (resources) => {
    const generator = resources.generator()
    const served: Served[] = []
    for (const system of systems) {
      signal.throwIfAborted()
      if (!workloads.some((workload) => workload.systems.includes(system.id))) continue
      const running = await system.start(resources)
      if (running) served.push({ system, ...resources.keep(running) })
    }
    const results = workloads.flatMap((workload) =>
      served
        .filter(({ system }) => workload.systems.includes(system.id))
        .map((of) => ({ workload, ...of, rounds: [] as Figures[] })),
    )
    for (const { workload, system, urls } of results) {
      signal.throwIfAborted()
      // Creates every name, and warms the system up.
      const isPrepared = system.database !== undefined
      const job = { urls: urls.slice(0, 1), workload: workload.id, isPrepared }
      const { requestsPerSecond } = await run(generator, system, workload, job)
      const statements = workload.statements?.[system.id]
      if (statements) {
        await execute(resources, system, statements)
        if (workload.readShare) await run(generator, system, workload, job)
      }
      say(`first change of all, ${workload.id}, ${system.id}: ${Math.round(requestsPerSecond)} requests/s`)
    }
    await measure(options, results, generator)
    const hasKeys = results.some(({ workload }) => workload.change === 'withKey')
    return report(options, resources.versions, results, hasKeys ? await bytesOfKey(resources) : undefined)
  })
}

/** Executes statements in the database of a system. */
async function execute(
  resources: Resources,
  { database }: System,
  statements: readonly string[],
): Promise<void> {
  const target = await resources.database()
  const connection = await createConnection({ ...target, database: database ?? target.database })
  for (const statement of statements) await connection.query(statement)
  await connection.end()
}

/** Returns how many bytes of the database of Nth an idempotency key takes, with its part of the table's index. */
async function bytesOfKey(resources: Resources): Promise<number> {
  const connection = await createConnection(await resources.database())
  await connection.query('analyze table idempotency_key')
  const [[row]] = await connection.query<RowDataPacket[]>(
    `select (data_length + index_length) / (select count(*) from idempotency_key) as bytes
       from information_schema.tables
      where table_schema = database() and table_name = 'idempotency_key'`,
  )
  await connection.end()
  return Number(row?.bytes)
}

async function measure(
  { rounds, seconds, warmupSeconds, say, signal }: Options & Progress,
  results: readonly (Result & Running)[],
  generator: Generator,
): Promise<void> {
  for (let round = 1; round <= rounds; round++) {
    // To and fro, so that none always comes after the same other one, which may have left the disk busy.
    for (const { workload, system, urls, pid, store, rounds: done } of round % 2 === 1
      ? results
      : results.toReversed()) {
      signal.throwIfAborted()
      const hasTimes = store !== undefined && process.platform === 'linux'
      const processes = hasTimes ? { processes: { system: [pid, ...childrenOf(pid)], store } } : {}
      const job = {
        urls,
        workload: workload.id,
        isPrepared: true,
        measured: { seconds, warmupSeconds, ...processes },
      }
      const figures = await run(generator, system, workload, job)
      done.push(figures)
      const speed = `${Math.round(figures.requestsPerSecond)} requests/s`
      say(`round ${round} of ${rounds}, ${workload.id}, ${system.id}: ${speed}`)
    }
  }
}

/** Names the system and the workload in a failure. */
async function run(
  generator: Generator,
  system: System,
  workload: Workload,
  job: Parameters<Generator['run']>[0],
): Promise<Figures> {
  try {
    return await generator.run(job)
  } catch (cause) {
    throw new Error(`${system.title} failed in "${workload.title}": ${(cause as Error).message}`, { cause })
  }
}

/** The results as Markdown: a table for each workload, below what the figures depend on. */
function report(
  { rounds, seconds, workloads }: Options,
  stores: readonly string[],
  results: readonly Result[],
  bytesOfKey: number | undefined,
): string {
  const memory = Math.round(totalmem() / 2 ** 30)
  return [
    '# Nth beside other ways to count',
    [
      `- Date: ${new Date().toISOString().slice(0, 10)}`,
      `- Machine: ${cpus()[0]?.model ?? 'unknown'}, ${availableParallelism()} cores, ${memory} GiB of memory`,
      `- ${[`Node ${process.versions.node}`, ...stores].join(', ')}`,
      `- Nth with ${versionsIn('node_modules', NTH_PACKAGES)}`,
      `- The others with ${versionsIn('bench/node_modules', PEER_PACKAGES)}`,
    ].join('\n'),
    `Medians of ${rounds} rounds, ${seconds} s each, all systems in turn. Every issued number was checked: unique, without a gap, in an order that the times of the requests allow, and equal to the stored one afterwards; of slots, the sum.`,
    'Processor time is of a request, in µs: of the system while it is measured, and of its database or Redis from the warm-up on until that is idle.',
    ...workloads.flatMap((workload) => [
      ...table(results.filter((result) => result.workload === workload)),
      ...beside(workload, results),
    ]),
    ...(bytesOfKey === undefined
      ? []
      : [`An idempotency key takes ${bytesOfKey.toFixed(0)} bytes of the database.`]),
    '',
  ].join('\n\n')
}

function table(results: readonly Result[]): string[] {
  const [first] = results
  if (!first) return []
  const { workload } = first
  const nth = results.find(({ system }) => system.id === 'nth')
  const changesMany = workload.change === 'incrementMany'
  const head = ['System', 'Requests/s', 'Lowest – highest', 'p50 ms', 'p99 ms', 'Nth / this']
  const costs = ['system µs', 'store µs', 'Nth / this']
  const rows = results.map((result) => {
    const speed = medianFigure(result, 'requestsPerSecond')
    const speeds = result.rounds.map(({ requestsPerSecond }) => requestsPerSecond)
    return [
      result.system.title,
      grouped(speed),
      `${grouped(Math.min(...speeds))} – ${grouped(Math.max(...speeds))}`,
      medianFigure(result, 'p50Ms').toFixed(2),
      medianFigure(result, 'p99Ms').toFixed(2),
      ratio(nth && medianFigure(nth, 'requestsPerSecond') / speed),
      ...[medianFigure(result, 'systemUs'), medianFigure(result, 'storeUs')].map(inTenths),
      ratio(nth && medianFigure(nth, 'storeUs') / medianFigure(result, 'storeUs')),
      ...(changesMany ? [grouped(medianFigure(result, 'changesPerSecond'))] : []),
    ]
  })
  return [`## ${workload.title}`, tableOf([...head, ...costs, ...(changesMany ? ['Counters/s'] : [])], rows)]
}

/** What a workload costs each system, as a ratio to the workload that it is beside. */
function beside(workload: Workload, results: readonly Result[]): string[] {
  return results.flatMap((result) => {
    const plain = results.find(
      (other) => other.workload.id === workload.beside && other.system === result.system,
    )
    if (result.workload !== workload || !plain) return []
    const times = (figure: (result: Result) => number) => ratio(figure(result) / figure(plain))
    const [rate, system, store] = (['requestsPerSecond', 'systemUs', 'storeUs'] as const).map((figure) =>
      times((of) => medianFigure(of, figure)),
    )
    const all = times((of) => medianFigure(of, 'systemUs') + medianFigure(of, 'storeUs'))
    return [
      `${result.system.title} beside \`${workload.beside}\`: ${rate} of its rate, ${all} times its processor time (system ${system}, store ${store}).`,
    ]
  })
}

function ratio(value: number | undefined): string {
  return value === undefined || Number.isNaN(value) ? '–' : value.toFixed(2)
}

function inTenths(value: number): string {
  return Number.isNaN(value) ? '–' : value.toFixed(1)
}

function medianFigure({ rounds }: Result, figure: keyof Figures): number {
  return medianOf(rounds.map((figures) => figures[figure] ?? Number.NaN))
}

/** A whole number, with a space between its thousands. */
function grouped(value: number): string {
  return value.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ' ')
}

function versionsIn(folder: string, names: readonly string[]): string {
  const versionOf = (name: string) =>
    JSON.parse(readFileSync(new URL(`${folder}/${name}/package.json`, ROOT), 'utf8')).version
  return names.map((name) => `${name} ${versionOf(name)}`).join(', ')
}
