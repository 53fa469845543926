import { NthError } from './errors.ts'

/** What one caller asks of one row, or what all callers of a run ask of it together. */
export type Operation = { kind: 'add'; delta: number } | { kind: 'set'; to: number }

export interface Dealt {
  value: number
  previousValue: number
}

/** The answers of a run, in the order of its operations, and what the row holds after it. */
export interface DealtRun {
  answers: (Dealt | NthError)[]
  value: number
}

/**
 * Two operations, one after the other, as one; undefined where that one would leave the safe range by itself,
 * whatever the row holds.
 */
export function merge(first: Operation, second: Operation): Operation | undefined {
  if (second.kind === 'set') return second
  if (first.kind === 'set') {
    const to = first.to + second.delta
    return Number.isSafeInteger(to) ? { kind: 'set', to } : undefined
  }
  const delta = first.delta + second.delta
  return Number.isSafeInteger(delta) ? { kind: 'add', delta } : undefined
}

/** Deals each operation of a run its own answer, as if they had run alone, one after another, from `previousValue` on. */
export function dealRun(previousValue: number, operations: readonly Operation[]): DealtRun {
  let value = previousValue
  const answers = operations.map((operation) => {
    const answer = deal(value, operation)
    if (!(answer instanceof NthError)) value = answer.value
    return answer
  })
  return { answers, value }
}

function deal(previousValue: number, operation: Operation): Dealt | NthError {
  if (operation.kind === 'set') return { value: operation.to, previousValue }
  const { delta } = operation
  const value = previousValue + delta
  // A sum that leaves the safe range is rounded, but never back into it, unless it began outside.
  if (Number.isSafeInteger(previousValue) && Number.isSafeInteger(value)) return { value, previousValue }
  return new NthError(
    'OUT_OF_RANGE',
    `${previousValue} plus ${delta} would leave the range of ${Number.MIN_SAFE_INTEGER} to ${Number.MAX_SAFE_INTEGER}; nothing was changed.`,
    { value: previousValue },
  )
}
