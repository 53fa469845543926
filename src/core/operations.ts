import type { CounterResult } from '../rules/counter.ts'
import type { SequenceResult } from './sequences/state.ts'

/** Result of an operation on one row. */
export type OperationResult = CounterResult | SequenceResult
