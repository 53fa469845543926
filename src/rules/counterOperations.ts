import { add, become, limitReached, type RowState, revisionOf } from './addition.ts'
import {
  type CounterOperation,
  type CounterResult,
  changedDefinition,
  crossed,
  type DefinitionChange,
  type Expected,
  type FirstCount,
  type Held,
  type HoldPart,
  repeatedCount,
} from './counter.ts'
import { assertInvariant, NthError } from './errors.ts'
import { confirm, extend, hold, release } from './holds.ts'

/**
 * Applies an operation to a row's state at an instant. If it is refused, nothing changes, unless it is one on a hold, of
 * which `applyAll` undoes all.
 *
 * @param heldAt instant by which a hold is made or extended
 */
export function apply(
  row: RowState,
  operation: CounterOperation,
  at: Date,
  heldAt = 0,
): CounterResult | NthError {
  const { fault } = row
  if (fault && !fault.allowed.includes(operation.kind)) return fault.error
  switch (operation.kind) {
    case 'add':
      return add(row, operation.delta, at)
    case 'countOnce':
      return countOnce(row, operation.subject, at)
    case 'uncount':
      return uncount(row, operation.subject, at)
    case 'set':
      return set(row, operation.to, operation.expected, operation.newSalt)
    case 'raise':
      return raise(row, operation.to, operation.change, at)
    case 'define':
      return define(row, operation.change, row.value, at, row.held)
    case 'delete':
      row.isDeleted = true
      return { ...become(row, 0, null), definition: undefined, valuesIn: undefined }
    case 'hold':
      return hold(row, operation, at, heldAt)
    case 'confirm':
      return confirm(row, operation, at)
    case 'extend':
      return extend(row, operation, heldAt)
    case 'release':
      return release(row, operation)
  }
}

type CounterStep = { row: RowState; operation: CounterOperation }

/**
 * Applies several additions, or operations on the parts of one hold: all or none. The error has the index of the refused one,
 * and its row's value before.
 */
export function applyAll(changes: readonly CounterStep[], at: Date): CounterResult[] | NthError {
  const before = changes.map(({ row, operation }) => ({
    row: { ...row },
    part: 'token' in operation ? row.parts.get(operation.token) : undefined,
  }))
  // One instant for all of a hold: no part of it may count as expired before another.
  const heldAt = Math.max(...changes.map(({ row }) => row.held?.at ?? 0))
  const results: CounterResult[] = []
  for (const [index, { row, operation }] of changes.entries()) {
    const result = apply(row, operation, at, heldAt)
    if (result instanceof NthError) {
      for (const [place, changed] of changes.entries()) undo(changed, before[place])
      const isAboutRow = result.code === 'LIMIT_REACHED' || result.code === 'OUT_OF_RANGE'
      const details = isAboutRow ? { ...result.details, index, value: row.value } : result.details
      return new NthError(result.code, result.message, details)
    }
    results.push(result)
  }
  return results
}

function undo(
  { row, operation }: CounterStep,
  before: { row: RowState; part: HoldPart | undefined } | undefined,
) {
  Object.assign(row, before?.row)
  if (!('token' in operation)) return
  if (before?.part) row.parts.set(operation.token, before.part)
  else row.parts.delete(operation.token)
}

function countOnce(row: RowState, subject: string, at: Date): CounterResult | NthError {
  const subjects = subjectsOf(row)
  const first = subjects.get(subject)
  if (first) return repeatedCount(first)
  const result = add(row, 1, at)
  if (result instanceof NthError || result.appliedDelta === 0) return result
  subjects.set(subject, { value: result.value, at, valuesIn: result.valuesIn ?? {} })
  return result
}

function uncount(row: RowState, subject: string, at: Date): CounterResult | NthError {
  const subjects = subjectsOf(row)
  const { value } = row
  if (!subjects.has(subject)) return { value, previousValue: value, appliedDelta: 0, isUncounted: true }
  subjects.delete(subject)
  const result = add(row, -1, at)
  // Nobody may stay counted for good, as where a reset has left nothing to subtract.
  return result instanceof NthError ? become(row, value, 0) : result
}

function subjectsOf({ subjects }: RowState): Map<string, FirstCount> {
  assertInvariant(subjects !== undefined, 'the subjects of a row were read with it')
  return subjects
}

function set(row: RowState, to: number, expected?: Expected, newSalt?: string): CounterResult | NthError {
  const { value, definition, held } = row
  const conflict = expected && conflictWith(row, expected)
  if (conflict) return conflict
  const beyond = crossed(definition, to, held)
  if (beyond) return limitReached(String(to), beyond, value)
  row.newSalt = newSalt
  return become(row, to, null)
}

function conflictWith(row: RowState, expected: Expected): NthError | undefined {
  const present = { value: row.value, revision: revisionOf(row) }
  if (expected.revision != null && row.definition.slots > 1) {
    const message =
      'A counter with several slots has no revision to compare with: use expectedValue. Nothing was changed.'
    return new NthError('BAD_USER_INPUT', message, { argument: 'expectedRevision' })
  }
  for (const property of ['value', 'revision'] as const) {
    const wanted = expected[property]
    if (wanted == null || wanted === present[property]) continue
    const message = `The ${property} is ${present[property]}, not ${wanted} as expected. Nothing was changed.`
    return new NthError('CONFLICT', message, present)
  }
  return undefined
}

function raise(row: RowState, to: number, change: DefinitionChange | undefined, at: Date) {
  const { value, definition, isNew } = row
  if (!isNew) {
    if (to > value) return set(row, to)
    return { value, previousValue: value, appliedDelta: null, definition, revision: revisionOf(row) }
  }
  const defined = change && define(row, change, to, at)
  if (defined instanceof NthError) return defined
  const result = set(row, to)
  if (result instanceof NthError) return result
  row.isNew = false
  return { ...result, isNew }
}

/** @param value what the bounds must allow, with what is held */
function define(
  row: RowState,
  change: DefinitionChange,
  value: number,
  at: Date,
  held?: Held,
): CounterResult | NthError {
  const definition = changedDefinition(row.definition, change, value, at.getTime(), held)
  if (definition instanceof NthError) return definition
  row.definition = definition
  row.isDefined = true
  row.raised += 1
  return { value, previousValue: value, appliedDelta: null, definition, held, revision: revisionOf(row) }
}
