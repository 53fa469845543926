// @module-tag random
import { describe, expect, it } from 'vitest'
import { upTo } from '../support/client/client.ts'
import { createRandom, runSize } from '../support/random.ts'
import { type Plan, planOf } from './plan.ts'
import { runPlan, shortestFailure, textOf } from './run.ts'

describe('the simulated pipeline', () => {
  it('returns to every caller what happened, whatever happens to processes, network and database', async () => {
    const first = createRandom().below(2 ** 31)
    let [components, givenUp] = [0, 0]
    for (let seed = first; seed < first + runSize(120, 2000); seed++) {
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

  it('delays others a few times only by a row that another session locks again and again', async () => {
    const LOCKS = 20
    const delayed = new Set<number>()
    const { history, faults } = await runPlan({
      seed: 1,
      processes: 1,
      latencyMs: 1,
      timeoutMs: 5000,
      mayKill: true,
      calls: ['free', 'held'].flatMap((name) =>
        upTo(20 * LOCKS).map((index) => ({
          at: 100 * index,
          process: 0,
          operation: { kind: 'increment', name } as const,
        })),
      ),
      faults: upTo(LOCKS).map((index) => ({ at: 2000 * index, kind: 'lock', name: 'held', forMs: 1500 })),
    })
    expect(faults).toEqual([])
    for (const { operation, sentAt, answeredAt } of history)
      if ('name' in operation && operation.name === 'free' && (answeredAt ?? Infinity) - sentAt > 100)
        delayed.add(Math.floor(sentAt / 2000))
    // A lock that is free before the wait for it ends is not noticed.
    expect(delayed.size).toBeLessThan(5)
  })
})
