import fc from 'fast-check'
import { expect, it } from 'vitest'
import { freshDatabase } from './support/database.ts'
import { openTestNth } from './support/nth.ts'

const OPERATIONS = 10_000

const end = Number.MAX_SAFE_INTEGER

const number = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: -100, max: 100 }) },
  { weight: 2, arbitrary: fc.maxSafeInteger() },
  { weight: 1, arbitrary: fc.constantFrom(0, end, -end, end - 1, 1 - end) },
)

const name = fc.constantFrom('a', 'A', 'á', 'a ', "'", '😀')

const operation = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('add' as const), name, number }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('reset' as const), name, number }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('read' as const), name }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('next' as const),
      name,
      group: fc.constantFrom('', 'g', 'G'),
      count: fc.integer({ min: 1, max: 1_000_000 }),
    }),
  },
)

type Operation = typeof operation extends fc.Arbitrary<infer Value> ? Value : never

it(`agrees with a model in memory over ${OPERATIONS} random operations`, async () => {
  const { counters, sequences } = openTestNth(await freshDatabase())
  const values = new Map<string, number>()
  const dealt = new Map<string, number>()
  let run = 0

  const check = async (step: Operation) => {
    run += 1
    const key = { namespace: 'n', name: step.name }
    const before = values.get(step.name) ?? 0
    switch (step.kind) {
      case 'add': {
        const sum = BigInt(before) + BigInt(step.number)
        const answer = await counters.incrementBy(key, step.number).catch((error) => error.code)
        if (sum > BigInt(end) || sum < -BigInt(end)) return expect(answer).toBe('OUT_OF_RANGE')
        values.set(step.name, Number(sum))
        return expect(answer).toMatchObject({
          value: Number(sum),
          previousValue: before,
          appliedDelta: step.number,
        })
      }
      case 'reset':
        values.set(step.name, step.number)
        return expect(await counters.reset(key, step.number)).toMatchObject({
          value: step.number,
          previousValue: before,
        })
      case 'read':
        return expect((await counters.read(key)).value).toBe(before)
      case 'next': {
        const group = `${step.name}/${step.group}`
        const last = dealt.get(group) ?? 0
        dealt.set(group, last + step.count)
        const answer = await sequences.next(
          { namespace: 'n', sequence: step.name, group: step.group },
          step.count,
        )
        return expect(answer).toMatchObject({
          value: last + 1,
          lastValue: last + step.count,
          count: step.count,
        })
      }
    }
  }

  await fc.assert(
    fc.asyncProperty(fc.array(operation, { minLength: 100, maxLength: 100 }), async (steps) => {
      for (const step of steps) await check(step)
    }),
    // A failed run can't be repeated on the same database, so it isn't shrunk.
    { numRuns: OPERATIONS / 100, endOnFailure: true },
  )
  expect(run).toBe(OPERATIONS)
  for (const [name, value] of values)
    expect((await counters.read({ namespace: 'n', name })).value).toBe(value)
})
