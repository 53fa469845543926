import fc from 'fast-check'
import { PERIODS, type Period } from '../../../src/rules/calendar.ts'
import type { SequenceDefinitionChange } from '../../../src/rules/sequenceDefinition.ts'
import { ofKind } from './ofKind.ts'
import { periodKeyOf, type SequenceModel, type SequenceOperation } from './sequenceModel.ts'

export const START = Date.UTC(2026, 10, 21)
/** No key is forgotten, however far the clock is put forward: some thirty years. */
export const FOR_EVER = 10 ** 12
export const GROUPS = ['', 'A', '7']
const MAX = Number.MAX_SAFE_INTEGER
export const HOUR = 3_600_000

const number = fc.oneof(
  { weight: 8, arbitrary: fc.integer({ min: -9, max: 30 }) },
  { weight: 1, arbitrary: fc.constantFrom(MAX, -MAX, MAX - 20, 20 - MAX, 2 ** 52) },
)

/** What is left out as often as not. */
function some<T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null | undefined> {
  return fc.oneof(
    { weight: 6, arbitrary: fc.constant(undefined) },
    { weight: 2, arbitrary },
    { weight: 1, arbitrary: fc.constant(null) },
  )
}

const change: fc.Arbitrary<SequenceDefinitionChange> = fc.record({
  startValue: some(number),
  step: some(fc.oneof(fc.integer({ min: -6, max: 9 }), fc.constantFrom(MAX, -MAX, 2 ** 51))),
  minValue: some(number),
  maxValue: some(number),
  cycle: some(fc.boolean()),
  format: some(
    fc.constantFrom(
      '{value}',
      '{value:3}',
      '1{value}',
      '{value}0',
      'A-{value}',
      '{group}-{value}',
      '{yyyy}-{value}',
      '{yy}/{value}',
      '20{yy}/{value}',
      '{yyyy}{MM}-{value:2}',
      '{MM}{yyyy}-{value:2}',
      '{yyyy}-{MM}-{dd} {value}',
      '{dd}.{MM}.{yyyy}: {value}',
      '{week}/{value}',
      '{yyyy}-{MM}-{dd}T{HH} {value}',
      '{{{value}}}',
      'T-{group}-{value}',
      '{value:2}{group}',
      '{group}{value}',
    ),
  ),
  restartEvery: some(fc.constantFrom(...PERIODS)),
  allowRepeats: fc.oneof(
    { weight: 9, arbitrary: fc.constant(undefined) },
    { weight: 2, arbitrary: fc.constant(null) },
    { weight: 1, arbitrary: fc.constant(true) },
  ),
  timeZone: some(fc.constantFrom('Europe/Berlin', 'Pacific/Apia', 'America/New_York', 'Asia/Kathmandu')),
})

/** An operation of which the period is known when it is sent. */
type PlannedOperation =
  | Exclude<SequenceOperation, { kind: 'raise' }>
  | (Omit<Extract<SequenceOperation, { kind: 'raise' }>, 'period'> & {
      /** How far ahead of the clock its period is. */
      ahead: number
      /** Undefined: of the periods of the sequence. */
      every: Period | null | undefined
    })

/** An operation that is sent at an instant. */
export function sent(planned: PlannedOperation, { definition }: SequenceModel, at: number) {
  if (planned.kind !== 'raise') return planned
  const { ahead, every = definition.restartEvery, ...raise } = planned
  return { ...raise, period: periodKeyOf({ ...definition, restartEvery: every }, at + ahead) }
}

export const operation: fc.Arbitrary<PlannedOperation> = fc.oneof(
  ofKind('next', 12, {
    group: fc.constantFrom(...GROUPS),
    count: fc.oneof(
      { weight: 3, arbitrary: fc.constant(1) },
      { weight: 1, arbitrary: fc.integer({ min: 1, max: 25 }) },
    ),
    key: fc.option(fc.constantFrom('k1', 'k2', 'k3'), { nil: undefined, freq: 3 }),
  }),
  ofKind('define', 6, { change }),
  ofKind('restart', 1, { group: fc.constantFrom(...GROUPS), nextValue: fc.option(number) }),
  ofKind('raise', 5, {
    group: fc.constantFrom(...GROUPS),
    ahead: fc.constantFrom(0, 0, 0, HOUR, 24 * HOUR, 24 * 31 * HOUR),
    every: fc.oneof(
      { weight: 9, arbitrary: fc.constant(undefined) },
      { weight: 1, arbitrary: fc.constantFrom(null, ...PERIODS) },
    ),
    position: fc.record({ last: fc.option(number, { freq: 4 }), next: fc.option(number, { freq: 2 }) }),
    isIssued: fc.boolean(),
  }),
  // Once in a while: else most would be worn out.
  ofKind('delete', 1),
)
