import type { Result } from './bench.ts'
import { medianOf } from './median.ts'
import type { Options } from './options.ts'
import { changesMany, type Workload } from './workloads.ts'

/** The results as Markdown: a table for each workload, and how far they are from what Nth should reach. */
export function report(
  { rounds, seconds, workloads }: Options,
  machine: readonly string[],
  results: readonly Result[],
): string {
  return [
    '# Nth beside other ways to count',
    machine.join('\n'),
    `Medians of ${rounds} rounds, ${seconds} s each, all systems in turn. Every number handed out was checked: unique, without a gap, and equal to the row afterwards; of slots, the sum. Every page of a leaderboard was compared with what was put in.`,
    ...workloads.flatMap((workload) => table(workload, results)),
    '',
  ].join('\n\n')
}

function table(workload: Workload, all: readonly Result[]): string[] {
  const results = all.filter((result) => result.workload === workload)
  const nth = results.find(({ system }) => system.id === 'nth')
  if (results.length === 0) return []
  const columns: Column[] = [
    ['Requests/s', (result) => grouped(medianOf(result, 'requestsPerSecond'))],
    ['Lowest – highest', spread],
    ['p50 ms', (result) => medianOf(result, 'p50Ms').toFixed(2)],
    ['p99 ms', (result) => medianOf(result, 'p99Ms').toFixed(2)],
    ['Nth / this', (result) => (nth ? ratio(nth, result) : '–')],
  ]
  if (changesMany(workload)) {
    columns.unshift(['Counters/s', (result) => grouped(medianOf(result, 'changesPerSecond'))])
  }
  return [
    `## ${workload.title}`,
    [
      row(['System', ...columns.map(([head]) => head)]),
      row(['---', ...columns.map(() => '---:')]),
      ...results.map((result) => row([result.system.title, ...columns.map(([, cellOf]) => cellOf(result))])),
    ].join('\n'),
  ]
}

/** What stands above a column, and in it. */
type Column = [head: string, cellOf: (result: Result) => string]

function ratio(one: Result, other: Result): string {
  return (medianOf(one, 'requestsPerSecond') / medianOf(other, 'requestsPerSecond')).toFixed(2)
}

function spread({ rounds }: Result): string {
  const values = rounds.map(({ requestsPerSecond }) => requestsPerSecond)
  return `${grouped(Math.min(...values))} – ${grouped(Math.max(...values))}`
}

/** A whole number, a space between its thousands. */
function grouped(value: number): string {
  return value.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ' ')
}

function row(cells: string[]): string {
  return `| ${cells.join(' | ')} |`
}
