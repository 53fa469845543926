// A process of its own, so that what it does for a request waits for nothing else.
import type { Job, Outcome } from './generator.ts'
import { type Figures, measure, touch } from './load.ts'
import { workloads } from './workloads.ts'

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

function run({ urls, workload: id, isPrepared, measured }: Job): Promise<Figures> {
  const workload = workloads.find((each) => each.id === id)
  if (!workload) throw new Error(`There is no workload ${id}.`)
  const target = { urls: urls.map((url) => new URL(url)), workload, isPrepared }
  return measured ? measure({ ...target, ...measured }) : touch(target)
}
