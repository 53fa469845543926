import { parseArgs } from 'node:util'
import { planOf } from './plan.ts'
import { runPlan, shortestFailure, textOf } from './run.ts'

const HELP = `Simulates the commit pipeline, a seed after the other, until a run is wrong: then prints it, shortened.

  npm run simulate -- [options]

  --seed <n>       first seed (default: random)
  --runs <n>       end after so many seeds
  --seconds <n>    end after so many seconds (default: 60)
  --help           this text`

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    runs: { type: 'string' },
    seconds: { type: 'string' },
    help: { type: 'boolean' },
  },
})
if (values.help) console.log(HELP)
else process.exitCode = await simulate()

/** @returns the exit code */
async function simulate(): Promise<number> {
  const first = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31))
  const runs = Number(values.runs ?? Number.POSITIVE_INFINITY)
  const endsAt =
    performance.now() + 1000 * Number(values.seconds ?? (values.runs ? Number.POSITIVE_INFINITY : 60))
  let [done, calls, components, givenUp] = [0, 0, 0, 0]
  for (; done < runs && performance.now() < endsAt; done++) {
    const plan = planOf(first + done)
    const run = await runPlan(plan)
    calls += run.history.length
    components += run.components
    givenUp += run.givenUp
    if (run.faults.length === 0) continue
    const shortest = (await shortestFailure(plan)) ?? run
    console.log(`Seed ${plan.seed} fails. Shortened:\n${textOf(shortest)}`)
    return 1
  }
  const parts = `${components} parts of their histories are checked`
  console.log(
    `${done} seeds from ${first}, ${calls} calls: ${parts}, and ${givenUp} of these were too much to decide.`,
  )
  return 0
}
