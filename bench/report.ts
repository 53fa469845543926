import { readFileSync } from 'node:fs'
import { availableParallelism, cpus, totalmem } from 'node:os'
import type { Result } from './bench.ts'
import type { Figures } from './load.ts'
import type { Options } from './options.ts'
import { ROOT } from './processes.ts'

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
    ...workloads.flatMap((workload) => table(results.filter((result) => result.workload === workload))),
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
  const rows = results.map((result) => {
    const speed = medianFigure(result, 'requestsPerSecond')
    const speeds = result.rounds.map(({ requestsPerSecond }) => requestsPerSecond)
    return [
      result.system.title,
      grouped(speed),
      `${grouped(Math.min(...speeds))} – ${grouped(Math.max(...speeds))}`,
      medianFigure(result, 'p50Ms').toFixed(2),
      medianFigure(result, 'p99Ms').toFixed(2),
      nth ? (medianFigure(nth, 'requestsPerSecond') / speed).toFixed(2) : '–',
      ...(changesMany ? [grouped(medianFigure(result, 'changesPerSecond'))] : []),
    ]
  })
  return [`## ${workload.title}`, tableOf([...head, ...(changesMany ? ['Counters/s'] : [])], rows)]
}

/** A table as Markdown. All columns but the first are of numbers. */
export function tableOf(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map((_, index) => (index === 0 ? '---' : '---:'))), ...rows.map(line)].join(
    '\n',
  )
}

function medianFigure({ rounds }: Result, figure: keyof Figures): number {
  return medianOf(rounds.map((figures) => figures[figure]))
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
