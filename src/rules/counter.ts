import {
  type Crossed,
  changedDefinition,
  crossed,
  type Definition,
  type DefinitionChange,
} from '../core/counters/definition.ts'
import type { Period } from './calendar.ts'
import { NthError } from './errors.ts'

export type CounterOperation =
  | { kind: 'add'; delta: number }
  | { kind: 'set'; to: number }
  /** Changes the definition, never the value. */
  | { kind: 'define'; change: DefinitionChange }
  /** Deletes the row. Later operations count in a new one. */
  | { kind: 'delete' }

export interface CounterResult {
  value: number
  previousValue: number
  /** The amount added; null unless it is an addition. */
  appliedDelta: number | null
  /** Totals of the tracked current periods, including this operation; undefined: not requested. */
  valuesIn?: PeriodValues | undefined
  /** Definition of the row afterwards; undefined: it is deleted, or an earlier call changed it. */
  definition?: Definition | undefined
  /** Revision of the row afterwards; undefined: not requested, or an earlier call changed it. */
  revision?: number | undefined
}

export type PeriodValues = { readonly [P in Period]?: number }

export type PeriodTotal = { period: Period; value: number }

/** State of a counter's row while operations are applied to it in order. */
export class RowState {
  value = 0
  definition: Definition
  /** One for each tracked period; undefined: not read, as they are not needed. */
  periodTotals: PeriodTotal[] | undefined
  /** Number of operations that added to its value or set it. */
  counted = 0
  /** Sum of the additions to its periods. It may leave the safe range if the value was set in between. */
  added = 0n
  /** Revision before all operations; undefined: not requested. */
  revision: number | undefined
  /** How much the operations raise it. */
  raised = 0
  isDefined = false
  isDeleted = false

  constructor(definition: Definition) {
    this.definition = definition
  }
}

/** Applies an operation to a row's state at an instant. If it is refused, nothing changes. */
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
      return { ...become(row, 0, null), definition: undefined, valuesIn: undefined }
  }
}

/** Applies several additions: all or none. The error has the index of the refused one, and its row's value before. */
export function applyAll(
  changes: readonly { row: RowState; operation: CounterOperation }[],
  at: Date,
): CounterResult[] | NthError {
  const results: CounterResult[] = []
  const undo: (() => void)[] = []
  for (const [index, { row, operation }] of changes.entries()) {
    const result = apply(row, operation, at)
    if (result instanceof NthError) {
      // Last first: a row may occur several times.
      for (const step of undo.reverse()) step()
      return new NthError(result.code, result.message, { ...result.details, index, value: row.value })
    }
    undo.push(() => {
      row.value = result.previousValue
      row.counted -= 1
      row.raised -= raiseBy(result.appliedDelta)
      if (row.periodTotals) addToPeriods(row, row.periodTotals, -(result.appliedDelta ?? 0))
    })
    results.push(result)
  }
  return results
}

function add(row: RowState, delta: number): CounterResult | NthError {
  const { value: previous, definition } = row
  const { bounds } = definition
  const value = previous + delta
  const beyond = bounds && crossed(bounds, value)
  if (beyond && bounds.overflow === 'REJECT')
    return limitReached(`${previous} plus ${delta}`, beyond, previous)
  if (beyond) return addWithin(row, beyond.limit, beyond.limit - previous)
  // A sum outside the safe range is rounded, but never into it, unless the previous value was outside.
  if (Number.isSafeInteger(previous) && Number.isSafeInteger(value)) return addWithin(row, value, delta)
  return outOfRange(`${previous} plus ${delta}`, previous)
}

/** Adds, unless the total of a current period would leave the safe range. */
function addWithin(row: RowState, value: number, delta: number): CounterResult | NthError {
  if (row.periodTotals) {
    const full = row.periodTotals.find(({ value: total }) => !Number.isSafeInteger(total + delta))
    if (full) return outOfRange(`The total of this ${full.period}, ${full.value}, plus ${delta}`, row.value)
    addToPeriods(row, row.periodTotals, delta)
  }
  return become(row, value, delta)
}

function addToPeriods(row: RowState, totals: PeriodTotal[], delta: number): void {
  row.added += BigInt(delta)
  for (const total of totals) total.value += delta
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
  const valuesIn = periodTotals && valuesOf(periodTotals)
  return { value, previousValue, appliedDelta, definition, valuesIn, revision: revisionOf(row) }
}

/** How much an operation raises the revision: adding 0 changes only the counter's time of update. */
function raiseBy(appliedDelta: number | null): number {
  return appliedDelta === 0 ? 0 : 1
}

/** The revision after an operation; undefined: not requested. */
export function revisionOf({ revision, raised }: Pick<RowState, 'revision' | 'raised'>): number | undefined {
  return revision === undefined ? undefined : revision + raised
}

function valuesOf(periodTotals: readonly PeriodTotal[]): PeriodValues {
  const values: { [P in Period]?: number } = {}
  for (const { period, value } of periodTotals) values[period] = value
  return values
}

function outOfRange(what: string, value: number): NthError {
  const message = `${what} is outside the range of ${Number.MIN_SAFE_INTEGER} to ${Number.MAX_SAFE_INTEGER}. Nothing was changed.`
  return new NthError('OUT_OF_RANGE', message, { value })
}

function limitReached(what: string, { side, limit }: Crossed, value: number): NthError {
  const bound = side === 'maxValue' ? 'above the maximum' : 'below the minimum'
  const message = `Limit reached: ${what} is ${bound} of ${limit}. Nothing was changed.`
  return new NthError('LIMIT_REACHED', message, { limit, value })
}
