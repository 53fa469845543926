import { type Bounds, type BoundsChange, type Crossed, changedBounds, crossed, misfit } from './bounds.ts'
import { NthError } from './errors.ts'

/** What one caller asks of one row. */
export type Operation =
  | ValueOperation
  /** Changes what its value may be, never the value. */
  | { kind: 'define'; bounds: BoundsChange }
  /** Ends the row: what comes after it counts in a new one. */
  | { kind: 'delete' }

/** An operation that several callers can ask for together, as one. */
export type ValueOperation = { kind: 'add'; delta: number } | { kind: 'set'; to: number }

/** What one operation did. */
export interface Dealt {
  value: number
  previousValue: number
  /** What was added; null for anything else than an addition. */
  appliedDelta: number | null
  /** What the row's value may be after it; undefined: anything. */
  bounds?: Bounds | undefined
}

/** What a row holds, while operations are dealt one after another. */
export interface RowState {
  value: number
  bounds: Bounds | undefined
  /** How many operations have added to its value or set it. */
  counted: number
  isDefined: boolean
  isDeleted: boolean
}

/** Two operations, one after the other, as one; undefined where no such one fits every row. */
export function merge(first: ValueOperation, second: ValueOperation): ValueOperation | undefined {
  if (second.kind === 'set') return second
  if (first.kind === 'set') {
    const to = first.to + second.delta
    return Number.isSafeInteger(to) ? { kind: 'set', to } : undefined
  }
  const delta = first.delta + second.delta
  return Number.isSafeInteger(delta) ? { kind: 'add', delta } : undefined
}

/** Does an operation on what a row holds. If it is refused, nothing changes. */
export function deal(row: RowState, operation: Operation): Dealt | NthError {
  switch (operation.kind) {
    case 'add':
      return add(row, operation.delta)
    case 'set':
      return set(row, operation.to)
    case 'define':
      return define(row, operation.bounds)
    case 'delete':
      row.isDeleted = true
      row.bounds = undefined
      return become(row, 0, null)
  }
}

/**
 * Does several additions, each on the row of the same index, all or none of them. A refusal tells the index
 * of the one that is refused, and the value of its row before all of them.
 */
export function dealAll(rows: readonly RowState[], operations: readonly Operation[]): Dealt[] | NthError {
  const answers: Dealt[] = []
  for (const [index, row] of rows.entries()) {
    const operation = operations[index]
    if (!operation) throw new Error('A row without an operation')
    const answer = deal(row, operation)
    if (answer instanceof NthError) {
      takeBack(rows, answers)
      return answer.with({ index, value: row.value })
    }
    answers.push(answer)
  }
  return answers
}

/** Undoes what was answered, last first: a row may be there several times. */
function takeBack(rows: readonly RowState[], answers: readonly Dealt[]): void {
  for (const [index, { previousValue }] of [...answers.entries()].toReversed()) {
    const row = rows[index]
    if (!row) continue
    row.value = previousValue
    row.counted -= 1
  }
}

function add(row: RowState, delta: number): Dealt | NthError {
  const { value: previous, bounds } = row
  const value = previous + delta
  const beyond = bounds && crossed(bounds, value)
  if (beyond) {
    const { limit } = beyond
    if (bounds.overflow === 'SATURATE') return become(row, limit, limit - previous)
    return limitReached(`${previous} plus ${delta}`, beyond, previous)
  }
  // A sum that leaves the safe range is rounded, but never back into it, unless it began outside.
  if (Number.isSafeInteger(previous) && Number.isSafeInteger(value)) return become(row, value, delta)
  return new NthError(
    'OUT_OF_RANGE',
    `${previous} plus ${delta} would leave the range of ${Number.MIN_SAFE_INTEGER} to ${Number.MAX_SAFE_INTEGER}; nothing was changed.`,
    { value: previous },
  )
}

function set(row: RowState, to: number): Dealt | NthError {
  const { value, bounds } = row
  const beyond = bounds && crossed(bounds, to)
  return beyond ? limitReached(String(to), beyond, value) : become(row, to, null)
}

function define(row: RowState, change: BoundsChange): Dealt | NthError {
  const bounds = changedBounds(row.bounds, change)
  if (bounds instanceof NthError) return bounds
  const fault = misfit(bounds, row.value)
  if (fault) return fault
  row.bounds = bounds
  row.isDefined = true
  return { value: row.value, previousValue: row.value, appliedDelta: null, bounds }
}

function become(row: RowState, value: number, appliedDelta: number | null): Dealt {
  const previousValue = row.value
  row.value = value
  row.counted += 1
  return { value, previousValue, appliedDelta, bounds: row.bounds }
}

function limitReached(what: string, { side, limit }: Crossed, value: number): NthError {
  const bound = side === 'maxValue' ? 'highest' : 'lowest'
  const message = `${what} would cross the ${bound} value allowed, ${limit}; nothing was changed.`
  return new NthError('LIMIT_REACHED', message, { limit, value })
}
