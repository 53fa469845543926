import { workloads } from '../workloads.ts'
import { type Figures, measure, touch } from './measure.ts'

/** What the benchmark asks of this process: to measure a system, or to touch every name or page there once. */
export interface Job {
  url: string
  workload: string
  measured?: { seconds: number; warmupSeconds: number }
}

/** Of names that were touched, only the requests per second. */
export type Outcome = { figures: Figures | Touched } | { fault: string }

export type Touched = Pick<Figures, 'requestsPerSecond'>

// A process of its own, so that what it does for a request waits for nothing else.
process.on('message', async (job: Job) => {
  process.send?.(await outcomeOf(job))
})

async function outcomeOf(job: Job): Promise<Outcome> {
  try {
    return { figures: await run(job) }
  } catch (error) {
    return { fault: error instanceof Error ? error.message : String(error) }
  }
}

async function run({ url, workload: id, measured }: Job): Promise<Figures | Touched> {
  const workload = workloads.find((one) => one.id === id)
  if (!workload) throw new Error(`There is no workload ${id}.`)
  const target = { url: new URL(url), workload }
  return measured ? measure({ ...target, ...measured }) : { requestsPerSecond: await touch(target) }
}
