// @module-tag random
import { expect, it } from 'vitest'
import { createRandom, runSize } from '../support/random.ts'
import { type Plan, planOf } from './plan.ts'
import { runPlan, shortestFailure, textOf } from './run.ts'

it('returns to every caller what happened, whatever happens to processes, network and database', async () => {
  const first = createRandom().below(2 ** 31)
  let [components, givenUp] = [0, 0]
  for (let seed = first; seed < first + runSize(200, 2000); seed++) {
    const plan = planOf(seed)
    const run = await runPlan(plan)
    components += run.components
    givenUp += run.givenUp
    // Shortened only if there is something to see.
    const failure = run.faults.length > 0 ? ((await shortestFailure(plan)) ?? run) : undefined
    expect(failure && `seed ${seed}: ${textOf(failure)}`).toBeUndefined()
  }
  expect(givenUp).toBeLessThan(3 + components / 50)
})

it.each([1, 2, 3, 4, 5])('repeats the run of a seed: %d', async (seed) => {
  const [first, second] = [await runPlan(planOf(seed)), await runPlan(planOf(seed))]
  expect(textOf(second)).toBe(textOf(first))
})

it('answers no more once a database lacks what one of its writers has committed, be it not the one that writes', async () => {
  const change = { kind: 'incrementBy', name: 'c', delta: 1 } as const
  const plan: Plan = {
    seed: 1,
    processes: 1,
    latencyMs: 1,
    isFar: false,
    timeoutMs: 1500,
    mayKill: true,
    calls: [
      { at: 10, process: 0, operation: { kind: 'increment', name: 'a' } },
      { at: 10, process: 0, operation: { kind: 'increment', name: 'c' } },
      // Refused at first, so it is quarantined, and committed by another writer than the others.
      { at: 200, process: 0, operation: change },
      { at: 900, process: 0, operation: { kind: 'increment', name: 'a' } },
    ],
    faults: [
      { at: 150, kind: 'trigger', name: 'c', forMs: 53 },
      { at: 800, kind: 'failover', forMs: 10, lostCommits: 1 },
    ],
  }
  const { history, faults } = await runPlan(plan)
  expect(history.map(({ outcome }) => outcome.kind)).toEqual(['answered', 'answered', 'answered'])
  expect(faults).toEqual([])
})
