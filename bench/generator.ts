import { startProgram } from './children.ts'
import type { Job, Outcome, Touched } from './load/main.ts'
import type { Figures } from './load/measure.ts'

/** The process that sends the requests. */
export interface Generator {
  /** Changes every name of a workload, or reads every page, once. Returns the requests per second. */
  touch(url: string, workload: string): Promise<number>
  measure(url: string, workload: string, time: NonNullable<Job['measured']>): Promise<Figures>
  end(): Promise<void>
}

export function startGenerator(): Generator {
  const child = startProgram('load/main.ts', [], { talks: true })

  async function run(job: Job): Promise<Figures | Touched> {
    const answered = new Promise<Outcome>((resolve) => child.process.once('message', resolve))
    child.process.send(job)
    const outcome = await Promise.race([answered, child.ended])
    if (typeof outcome !== 'object') throw new Error(`The load generator ended (${outcome}).`)
    if ('fault' in outcome) throw new Error(outcome.fault)
    return outcome.figures
  }

  return {
    touch: async (url, workload) => (await run({ url, workload })).requestsPerSecond,

    async measure(url, workload, measured) {
      const figures = await run({ url, workload, measured })
      if (!('p50Ms' in figures)) throw new Error('The load generator measured nothing.')
      return figures
    },

    end: child.end,
  }
}
