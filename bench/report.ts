import { readFileSync } from 'node:fs'
import { availableParallelism, cpus, totalmem } from 'node:os'
import type { Result } from './bench.ts'
import type { Figures } from './load.ts'
import type { Options } from './options.ts'
import { ROOT } from './processes.ts'
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

/** The results as Markdown: a table for each workload, below what the figures depend on. */
export function report(
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

/** A table as Markdown. All columns but the first are of numbers. */
export function tableOf(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map((_, index) => (index === 0 ? '---' : '---:'))), ...rows.map(line)].join(
    '\n',
  )
}

function medianFigure({ rounds }: Result, figure: keyof Figures): number {
  return medianOf(rounds.map((figures) => figures[figure] ?? Number.NaN))
}

/** Returns the median of some values; NaN if there are none. */
export function medianOf(values: readonly number[]): number {
  const inOrder = values.toSorted((a, b) => a - b)
  const middle = (inOrder.length - 1) / 2
  const [low = Number.NaN, high = Number.NaN] = [inOrder[Math.floor(middle)], inOrder[Math.ceil(middle)]]
  return (low + high) / 2
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
