import type { Figures, Processes } from './load.ts'
import { processorTimeOf, startProgram } from './processes.ts'

/** What the load generator is asked: to measure a system, or to change every name there once. */
export interface Job {
  urls: string[]
  workload: string
  /** Whether the workload's preparation is not to be sent: it was, or the system needs none. */
  isPrepared?: boolean
  measured?: { seconds: number; warmupSeconds: number; processes?: Processes }
}

export type Outcome = { figures: Figures } | { fault: string }

/** The process that sends the requests, of which one job is under way at a time. */
export interface Generator {
  run(job: Job): Promise<Figures>
  end(): Promise<void>
}

export function startGenerator(): Generator {
  const child = startProgram('generatorProcess.ts', [], { hasMessages: true })
  return {
    async run(job) {
      const answered = new Promise<Outcome>((resolve) => child.process.once('message', resolve))
      child.process.send(job)
      const outcome = await Promise.race([answered, child.ended])
      if (typeof outcome !== 'object') throw new Error(`The load generator ended (${outcome}).`)
      if ('fault' in outcome) throw new Error(outcome.fault)
      return outcome.figures
    },

    end: child.end,
  }
}

/** Returns the processor time that one call of a workload costs a process of a system, in µs. */
export async function costOfCall(
  generator: Generator,
  { urls, pid }: { urls: string[]; pid: number },
  workload: string,
  seconds: number,
): Promise<number> {
  const before = processorTimeOf(pid)
  const measured = { seconds, warmupSeconds: 0 }
  const { requestsPerSecond } = await generator.run({ urls, workload, measured })
  return (1e6 * (processorTimeOf(pid) - before)) / (requestsPerSecond * seconds)
}
