import { type Crossed, crossed } from './bounds.ts'
import type { Period } from './calendar.ts'
import { changedDefinition, type Definition, type DefinitionChange } from './definition.ts'
import { NthError } from './errors.ts'
import type { GroupOperation, SequenceResult } from './numberState.ts'

/** What one caller asks of one row. */
export type Operation = CounterOperation | GroupOperation

/** What one caller asks of one counter. */
export type CounterOperation =
  | ValueOperation
  /** Changes what it is, never the value. */
  | { kind: 'define'; change: DefinitionChange }
  /** Ends the row: what comes after it counts in a new one. */
  | { kind: 'delete' }

/** An operation that several callers can ask for together, as one. */
export type ValueOperation = { kind: 'add'; delta: number } | { kind: 'set'; to: number }

/** What one operation did. */
export type OperationResult = CounterResult | SequenceResult

/** What one operation on a counter did. */
export interface CounterResult {
  value: number
  previousValue: number
  /** What was added; null for anything else than an addition. */
  appliedDelta: number | null
  /** What was added in each running period that is kept, this operation included; undefined: nobody has asked. */
  valuesIn?: PeriodValues | undefined
  /** What the row is after it; undefined: it is not known any more. */
  definition?: Definition | undefined
  /** That of the row after it; undefined: nobody has asked. */
  revision?: number | undefined
}

export type PeriodValues = { readonly [P in Period]?: number }

/** What the current period has counted. */
export interface PeriodTotal {
  period: Period
  value: number
}

/** What a row holds, while operations are issued one after another. */
export interface RowState {
  value: number
  definition: Definition
  /** One for each period that is kept; undefined: not read, as no caller wants them. */
  periodTotals: PeriodTotal[] | undefined
  /** How many operations have added to its value or set it. */
  counted: number
  /** What they have added together: also where that is beyond the safe range, as one was set in between. */
  added: bigint
  /** Before all operations; undefined: it is not known, as nobody asks. */
  revision: number | undefined
  /** By how much the operations raise it. */
  raised: number
  isDefined: boolean
  isDeleted: boolean
}

/** Whether an operation is one on a counter. */
export function isForCounter(operation: Operation): operation is CounterOperation {
  return ['add', 'set', 'define', 'delete'].includes(operation.kind)
}

/** Two operations, one after the other, as one; undefined where no such one fits every row. */
export function coalesce(first: ValueOperation, second: ValueOperation): ValueOperation | undefined {
  if (second.kind === 'set') return second
  if (first.kind === 'set') {
    const to = first.to + second.delta
    return Number.isSafeInteger(to) ? { kind: 'set', to } : undefined
  }
  const delta = first.delta + second.delta
  return Number.isSafeInteger(delta) ? { kind: 'add', delta } : undefined
}

/** Does an operation on what a row holds, at an instant. If it is refused, nothing changes. */
export function apply(row: RowState, operation: CounterOperation, at: Date): CounterResult | NthError {
  switch (operation.kind) {
    case 'add':
      return add(row, operation.delta)
    case 'set':
      return set(row, operation.to)
    case 'define':
      return define(row, operation.change, at)
    case 'delete':
      row.isDeleted = true
      return { ...become(row, 0, null), definition: undefined }
  }
}

/**
 * Does several additions, each on the row of the same index, all or none of them. A refusal tells the index
 * of the one that is refused, and the value of its row before all of them.
 */
export function applyAll(
  rows: readonly RowState[],
  operations: readonly CounterOperation[],
  at: Date,
): CounterResult[] | NthError {
  const answers: CounterResult[] = []
  for (const [index, row] of rows.entries()) {
    const operation = operations[index]
    if (!operation) throw new Error('A row without an operation')
    const answer = apply(row, operation, at)
    if (answer instanceof NthError) {
      takeBack(rows, answers)
      return answer.with({ index, value: row.value })
    }
    answers.push(answer)
  }
  return answers
}

/** Undoes what was answered, last first: a row may be there several times. */
function takeBack(rows: readonly RowState[], answers: readonly CounterResult[]): void {
  for (const [index, { previousValue, appliedDelta }] of [...answers.entries()].toReversed()) {
    const row = rows[index]
    if (!row) continue
    row.value = previousValue
    row.counted -= 1
    row.raised -= raiseBy(appliedDelta)
    addToPeriods(row, -(appliedDelta ?? 0))
  }
}

function add(row: RowState, delta: number): CounterResult | NthError {
  const { value: previous, definition } = row
  const { bounds } = definition
  const value = previous + delta
  const beyond = bounds && crossed(bounds, value)
  if (beyond) {
    const { limit } = beyond
    if (bounds.overflow === 'REJECT') return limitReached(`${previous} plus ${delta}`, beyond, previous)
    return addWithin(row, limit, limit - previous)
  }
  // A sum that leaves the safe range is rounded, but never back into it, unless it began outside.
  if (Number.isSafeInteger(previous) && Number.isSafeInteger(value)) return addWithin(row, value, delta)
  return outOfRange(`${previous} plus ${delta}`, previous)
}

/** Adds, unless the total of a current period would leave the safe range. */
function addWithin(row: RowState, value: number, delta: number): CounterResult | NthError {
  const full = row.periodTotals?.find(({ value: total }) => !Number.isSafeInteger(total + delta))
  if (full) return outOfRange(`The total of this ${full.period}, ${full.value}, plus ${delta}`, row.value)
  addToPeriods(row, delta)
  return become(row, value, delta)
}

function addToPeriods(row: RowState, delta: number): void {
  row.added += BigInt(delta)
  for (const total of row.periodTotals ?? []) total.value += delta
}

function set(row: RowState, to: number): CounterResult | NthError {
  const { value, definition } = row
  const beyond = definition.bounds && crossed(definition.bounds, to)
  return beyond ? limitReached(String(to), beyond, value) : become(row, to, null)
}

function define(row: RowState, change: DefinitionChange, at: Date): CounterResult | NthError {
  const { value } = row
  const definition = changedDefinition(row.definition, change, value, at.getTime())
  if (definition instanceof NthError) return definition
  row.definition = definition
  row.isDefined = true
  row.raised += 1
  return { value, previousValue: value, appliedDelta: null, definition, revision: revisionOf(row) }
}

function become(row: RowState, value: number, appliedDelta: number | null): CounterResult {
  const { value: previousValue, definition, periodTotals } = row
  row.value = value
  row.counted += 1
  row.raised += raiseBy(appliedDelta)
  const revision = revisionOf(row)
  return {
    value,
    previousValue,
    appliedDelta,
    definition,
    valuesIn: periodTotals && valuesIn(periodTotals),
    revision,
  }
}

/** By how much an operation raises the revision: what adds nothing changes only when the counter was updated. */
export function raiseBy(appliedDelta: number | null): number {
  return appliedDelta === 0 ? 0 : 1
}

function revisionOf({ revision, raised }: RowState): number | undefined {
  return revision === undefined ? undefined : revision + raised
}

function valuesIn(periodTotals: readonly PeriodTotal[]): PeriodValues {
  const values: { [P in Period]?: number } = {}
  for (const { period, value } of periodTotals) values[period] = value
  return values
}

function outOfRange(what: string, value: number): NthError {
  return new NthError(
    'OUT_OF_RANGE',
    `${what} would leave the range of ${Number.MIN_SAFE_INTEGER} to ${Number.MAX_SAFE_INTEGER}; nothing was changed.`,
    { value },
  )
}

function limitReached(what: string, { side, limit }: Crossed, value: number): NthError {
  const bound = side === 'maxValue' ? 'highest' : 'lowest'
  const message = `${what} would cross the ${bound} value allowed, ${limit}; nothing was changed.`
  return new NthError('LIMIT_REACHED', message, { limit, value })
}
