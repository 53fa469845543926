// What a call costs the service, beside the same service without a database: to compare before and after a change.
import { costOfCall } from './generator.ts'
import type { Options } from './options.ts'
import { medianOf, tableOf } from './report.ts'
import { type Progress, withResources } from './resources.ts'
import { systems } from './systems.ts'

const WORKLOADS = ['hot@64', 'uniform@64']
/** Those that Nth in memory has not. */
const OF_NTH = ['subject@64', 'again@64']
/** One start differs from the next by up to a quarter. */
const STARTS = 5

/**
 * Measures the processor time that a call costs the process of Nth, and that of Nth in memory, start by start in turn.
 *
 * @returns Markdown
 * @throws {Error} at the first wrong number
 */
export function gate({ seconds, warmupSeconds, ...options }: Options & Progress): Promise<string> {
  const { say, signal } = options
  return withResources(options, async (resources) => {
    const generator = resources.generator()
    const measured = systems
      .filter(({ id }) => id === 'nth' || id === 'ceiling')
      .map((system) => {
        const measured = system.id === 'nth' ? [...WORKLOADS, ...OF_NTH] : WORKLOADS
        return { system, costs: new Map(measured.map((workload): [string, number[]] => [workload, []])) }
      })
    for (let start = 1; start <= STARTS; start++) {
      // To and fro, so that neither always comes after the other one.
      for (const { system, costs } of start % 2 === 1 ? measured : measured.toReversed()) {
        signal.throwIfAborted()
        const running = await system.start(resources)
        if (!running) throw new Error(`${system.title} can't be started.`)
        resources.keep(running)
        for (const [workload, measurements] of costs) {
          await generator.run({ urls: running.urls, workload })
          await costOfCall(generator, running, workload, warmupSeconds)
          const cost = await costOfCall(generator, running, workload, seconds)
          measurements.push(cost)
          say(`start ${start} of ${STARTS}, ${system.id}, ${workload}: ${cost.toFixed(1)} µs`)
        }
        await running.end()
      }
    }
    const costsOf = (id: string, workload: string) =>
      measured.find(({ system }) => system.id === id)?.costs.get(workload) ?? []
    const rows = WORKLOADS.map((workload) => {
      const [nth, ceiling] = [costsOf('nth', workload), costsOf('ceiling', workload)]
      return [workload, spread(nth), spread(ceiling), (medianOf(nth) / medianOf(ceiling)).toFixed(2)]
    })
    const plain = medianOf(costsOf('nth', 'hot@64'))
    const dearer = OF_NTH.map((workload) => {
      const costs = costsOf('nth', workload)
      return [workload, spread(costs), (medianOf(costs) / plain).toFixed(2)]
    })
    return [
      '# What a call costs',
      `Processor time of the process for a call, in µs: medians of ${STARTS} starts, in turn, of ${seconds} s each; lowest and highest in brackets.`,
      tableOf(['', 'Nth', 'Nth in memory', 'ratio'], rows),
      tableOf(['', 'Nth', 'beside hot@64'], dearer),
      '',
    ].join('\n\n')
  })
}

function spread(costs: readonly number[]): string {
  return `${medianOf(costs).toFixed(1)} (${Math.min(...costs).toFixed(1)} – ${Math.max(...costs).toFixed(1)})`
}
