import fc from 'fast-check'
import type { CounterChange } from '../../../src/repository/counters.ts'
import type { Nth } from '../../../src/repository/nth.ts'
import { NthError } from '../../../src/rules/errors.ts'
import { claimOf } from '../../../src/rules/idempotency.ts'
import type { Step } from '../../history/search.ts'
import { type ModelOperation, type ModelOutcome, type ModelState, step, wantsPeriodValues } from './model.ts'
import { ofKind } from './ofKind.ts'

const NAMESPACE = 'n'

export type ApiModelOperation = Exclude<ModelOperation, { kind: 'raise' }>

/** Executes an operation of the model on counters, and returns its outcome as the model does. Throws unexpected errors. */
export async function execute(counters: Nth['counters'], operation: ModelOperation): Promise<ModelOutcome> {
  try {
    const changes = await changesOf(counters, operation)
    return {
      answers: changes.map(({ value, previousValue, appliedDelta, valuesIn, isNew }) => ({
        value,
        previousValue,
        appliedDelta,
        // A caller who doesn't request it receives it if another caller of the batch does.
        added: wantsPeriodValues(operation) ? valuesIn?.DAY : undefined,
        isNew,
      })),
      isReplayed: changes.every(({ isReplayed }) => isReplayed),
    }
  } catch (error) {
    if (!(error instanceof NthError)) throw error
    const { value, limit, index } = error.details
    return { code: error.code, ...defined({ value, limit, index }) }
  }
}

async function changesOf(counters: Nth['counters'], operation: ModelOperation): Promise<CounterChange[]> {
  const { key, ...request } = operation
  const claim = key === undefined ? undefined : claimOf(NAMESPACE, key, [request])
  const options = { claim, wantsPeriodValues: wantsPeriodValues(operation) }
  switch (operation.kind) {
    case 'add':
      return [await counters.incrementBy(keyOf(operation.name), operation.delta, options)]
    case 'many':
      return counters.incrementMany(NAMESPACE, operation.changes, options)
    case 'reset': {
      const { name, to, expectedValue: value } = operation
      return [await counters.reset(keyOf(name), to, options, { value })]
    }
    case 'raise':
      return [await counters.raise(keyOf(operation.name), operation.to, operation.change)]
    case 'define':
      return [await counters.define(keyOf(operation.name), operation.change)]
    case 'delete':
      return [await counters.delete(keyOf(operation.name))]
  }
}

export function keyOf(name: string) {
  return { namespace: NAMESPACE, name }
}

function defined<T extends object>(details: T): Partial<T> {
  // A part of what was given.
  return Object.fromEntries(Object.entries(details).filter(([, value]) => value !== undefined)) as Partial<T>
}

/** Executes an operation, and returns it as a step; undefined if it certainly had no effect. `tick` is the clock. */
export async function observe(
  counters: Nth['counters'],
  operation: ModelOperation,
  tick: () => number,
): Promise<{ outcome: ModelOutcome; step: Step<ModelState> | undefined }> {
  const sentAt = tick()
  const outcome = await execute(counters, operation)
  const answeredAt = tick()
  const code = 'code' in outcome ? outcome.code : undefined
  if (code === 'UNAVAILABLE') return { outcome, step: undefined }
  const isUnknown = code === 'OUTCOME_UNKNOWN'
  const returned = text(outcome)
  return {
    outcome,
    step: {
      sentAt,
      answeredAt: isUnknown ? Infinity : answeredAt,
      uncertain: isUnknown ? JSON.stringify(operation) : undefined,
      apply(state) {
        const [after, expected] = step(state, operation)
        return isUnknown || text(expected) === returned ? [after] : []
      },
    },
  }
}

/** An outcome as a text, whatever the order of its parts. */
function text(outcome: ModelOutcome): string {
  if ('answers' in outcome) {
    const answers = outcome.answers.map((one) => [
      one.value,
      one.previousValue,
      one.appliedDelta,
      one.added,
      one.isNew,
    ])
    return JSON.stringify([answers, outcome.isReplayed])
  }
  const { code, value, limit, index } = outcome
  return JSON.stringify([code, value, limit, index])
}

const END = Number.MAX_SAFE_INTEGER

const name = fc.constantFrom('a', 'b', 'c')

const delta = fc.oneof(
  { weight: 12, arbitrary: fc.integer({ min: -3, max: 9 }) },
  { weight: 1, arbitrary: fc.constantFrom(END, -END) },
)

const bound = fc.constantFrom(undefined, null, -4, 0, 10, 20)

const change = fc.record({
  minValue: bound,
  maxValue: bound,
  overflow: fc.constantFrom(undefined, null, 'REJECT' as const, 'SATURATE' as const),
})

// Few, so that some are used again, with the same arguments and with others.
const key = fc.option(fc.constantFrom('k1', 'k2', 'k3', 'k4'), { nil: undefined, freq: 2 })

/** Operations of the API on a few counters. */
export const apiOperations: fc.Arbitrary<ApiModelOperation> = fc.oneof(
  ofKind('add', 8, { name, delta, key }),
  ofKind('many', 3, {
    changes: fc.array(fc.record({ name, delta }), { minLength: 1, maxLength: 4 }),
    key,
  }),
  ofKind('reset', 2, {
    name,
    to: fc.integer({ min: -5, max: 25 }),
    expectedValue: fc.option(fc.integer({ min: 0, max: 5 }), { nil: undefined, freq: 2 }),
    key,
  }),
  ofKind('define', 2, { name, change }),
  ofKind('delete', 1, { name }),
  // What is sent again.
  {
    weight: 3,
    arbitrary: fc.constantFrom<ApiModelOperation>(
      { kind: 'add', name: 'a', delta: 1, key: 'again' },
      { kind: 'many', changes: ['b', 'a'].map((name, index) => ({ name, delta: index + 1 })), key: 'cart' },
      { kind: 'reset', name: 'c', to: 5, key: 'start' },
    ),
  },
)

/** Any operation on a few counters. */
export const operations: fc.Arbitrary<ModelOperation> = fc.oneof(
  { weight: 19, arbitrary: apiOperations },
  ofKind('raise', 3, {
    name,
    to: fc.integer({ min: -5, max: 25 }),
    change: fc.option(change, { nil: undefined }),
  }),
)
