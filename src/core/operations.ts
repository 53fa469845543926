import type { CounterOperation, CounterResult } from './counters/apply.ts'
import type { SequenceOperation, SequenceResult } from './sequences/state.ts'

/** An operation on one row. */
export type Operation = CounterOperation | SequenceOperation

/** Result of an operation. */
export type OperationResult = CounterResult | SequenceResult
