import fc from 'fast-check'
import { expect, it } from 'vitest'
import { dealRun, merge, type Operation } from '../src/core/dealing.ts'
import { NthError } from '../src/core/errors.ts'

const MAX = Number.MAX_SAFE_INTEGER

const number = fc.oneof(
  fc.integer({ min: -3, max: 3 }),
  fc.maxSafeInteger(),
  fc.constantFrom(MAX, -MAX, MAX - 1, 1 - MAX),
)

const operation: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 4, arbitrary: number.map((delta): Operation => ({ kind: 'add', delta })) },
  { weight: 1, arbitrary: number.map((to): Operation => ({ kind: 'set', to })) },
)

/** What one operation alone does, by arithmetic without end. */
function alone(value: bigint, operation: Operation): bigint | undefined {
  const next = operation.kind === 'set' ? BigInt(operation.to) : value + BigInt(operation.delta)
  return next >= -BigInt(MAX) && next <= BigInt(MAX) ? next : undefined
}

it('deals each caller what it would have got alone', () => {
  fc.assert(
    fc.property(number, fc.array(operation, { minLength: 1, maxLength: 20 }), (previous, operations) => {
      const { answers, value } = dealRun(previous, operations)
      let row = BigInt(previous)
      for (const [index, each] of operations.entries()) {
        const answer = answers[index]
        const next = alone(row, each)
        if (next === undefined) {
          expect(answer).toBeInstanceOf(NthError)
          expect(answer).toMatchObject({ code: 'OUT_OF_RANGE', details: { value: Number(row) } })
        } else {
          expect(answer).toEqual({ value: Number(next), previousValue: Number(row) })
          row = next
        }
      }
      expect(value).toBe(Number(row))
    }),
    { numRuns: 5000 },
  )
})

it('merges operations into one that leaves behind what they would, if none of them is refused', () => {
  let merged = 0
  fc.assert(
    fc.property(number, fc.array(operation, { minLength: 1, maxLength: 20 }), (previous, operations) => {
      const one = operations.reduce<Operation | undefined>(
        (before, each, index) => (index === 0 ? each : before && merge(before, each)),
        undefined,
      )
      const { answers, value } = dealRun(previous, operations)
      if (!one || answers.some((answer) => answer instanceof NthError)) return
      merged++
      expect(alone(BigInt(previous), one)).toBe(BigInt(value))
    }),
    { numRuns: 5000 },
  )
  expect(merged).toBeGreaterThan(1000)
})

it('never merges into something that no statement could hold', () => {
  fc.assert(
    fc.property(operation, operation, (first, second) => {
      const one = merge(first, second)
      const held = one?.kind === 'set' ? one.to : one?.delta
      expect(one === undefined || Number.isSafeInteger(held)).toBe(true)
    }),
  )
})

it('refuses to count on from a value that is out of range itself', () => {
  const [answer] = dealRun(2 ** 53, [{ kind: 'add', delta: -1 }]).answers
  expect(answer).toMatchObject({ code: 'OUT_OF_RANGE' })
  expect(dealRun(2 ** 53, [{ kind: 'set', to: 0 }]).value).toBe(0)
})
