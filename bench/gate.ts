// What a call costs the service, beside the same service without a database: to look at before and after a change.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BenchOptions } from './bench.ts'
import { openDatabase } from './database.ts'
import { type Generator, startGenerator } from './generator.ts'
import { middleOf } from './median.ts'
import { processorTimeOf } from './mixed/processes.ts'
import { SERVES, type Stores, type System, systems } from './systems.ts'

const WORKLOADS = ['hot@64', 'uniform@64']
/** One start differs from the next by up to a quarter. */
const STARTS = 5

type GateOptions = Pick<BenchOptions, 'seconds' | 'warmupSeconds' | 'say' | 'signal'>

/**
 * Measures the processor time that a call costs the process of Nth, and that of Nth in memory, start by start in turn.
 *
 * @returns Markdown
 * @throws {Error} at the first wrong number
 */
export async function gate(options: GateOptions): Promise<string> {
  const { say, signal } = options
  const directory = await mkdtemp(join(tmpdir(), 'nth-gate-'))
  const database = await openDatabase(directory, { say, signal })
  const generator = startGenerator()
  signal.addEventListener('abort', generator.end)
  const measured = systems
    .filter(({ id }) => id === 'nth' || id === 'ceiling')
    .map((system) => ({ system, costs: WORKLOADS.map((): number[] => []) }))
  try {
    for (let start = 1; start <= STARTS; start++) {
      // To and fro, so that neither always comes after the other one.
      for (const { system, costs } of start % 2 === 1 ? measured : measured.toReversed()) {
        signal.throwIfAborted()
        const own = await measureStart(system, { database: database.target }, generator, options)
        for (const [index, cost] of own.entries()) costs[index]?.push(cost)
        say(`start ${start} of ${STARTS}, ${system.id}: ${own.map((cost) => cost.toFixed(1)).join(', ')} µs`)
      }
    }
    return reportOf(measured, options)
  } finally {
    await generator.end()
    await database.close()
    await rm(directory, { recursive: true, force: true })
  }
}

/** @returns the processor time for a call of each workload, in µs */
async function measureStart(
  system: System,
  stores: Stores,
  generator: Generator,
  { seconds, warmupSeconds }: GateOptions,
): Promise<number[]> {
  const child = system.start(stores)
  try {
    const url = await child.printed(SERVES)
    const costs: number[] = []
    for (const workload of WORKLOADS) {
      await generator.touch(url, workload)
      await generator.measure(url, workload, { seconds: warmupSeconds, warmupSeconds: 0 })
      const before = processorTimeOf(child.process.pid ?? 0)
      const { requestsPerSecond } = await generator.measure(url, workload, { seconds, warmupSeconds: 0 })
      const used = processorTimeOf(child.process.pid ?? 0) - before
      costs.push((1e6 * used) / (requestsPerSecond * seconds))
    }
    return costs
  } finally {
    await child.end()
  }
}

function reportOf(measured: readonly { costs: number[][] }[], { seconds }: GateOptions): string {
  const lines = WORKLOADS.map((workload, index) => {
    const [nth = [], ceiling = []] = measured.map(({ costs }) => costs[index] ?? [])
    const ratio = middleOf(nth) / middleOf(ceiling)
    return `| ${workload} | ${spread(nth)} | ${spread(ceiling)} | ${ratio.toFixed(2)} |`
  })
  return [
    '# What a call costs',
    `Processor time of the process for a call, in µs: medians of ${STARTS} starts, in turn, of ${seconds} s each; lowest and highest in brackets.`,
    ['| | Nth | Nth in memory | ratio |', '| --- | ---: | ---: | ---: |', ...lines].join('\n'),
    '',
  ].join('\n\n')
}

function spread(costs: readonly number[]): string {
  return `${middleOf(costs).toFixed(1)} (${Math.min(...costs).toFixed(1)} – ${Math.max(...costs).toFixed(1)})`
}
