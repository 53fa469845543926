import type { Batch, CounterWork, SequenceGroupWork } from '../../commit/batch.ts'
import type { Call } from '../../commit/call.ts'
import { apply, applyAll, RowState } from '../../rules/counter.ts'
import { assertInvariant, NthError } from '../../rules/errors.ts'
import { repeated, type StoredResults } from '../../rules/idempotency.ts'
import { addInPeriod, totalOf } from '../../rules/periods.ts'
import { applyToSequence } from '../../rules/sequence.ts'
import type { OperationResult } from '../operations.ts'
import { type NumberState, numberState } from '../sequences/state.ts'
import type { Applied, RowOperation } from './request.ts'
import type { CounterReading, CounterWrite, Reading, Writes } from './writer.ts'

export type Decision =
  /** What to write, and the result of each call if that is committed, in the order of the calls. */
  | { kind: 'decided'; writes: Writes; results: readonly (Applied | NthError)[] }
  /** Rows that don't exist. */
  | { kind: 'gone'; keys: readonly string[] }
  /** Rows that must take the locked path: a coalesced operation was refused, or the sum of a slot's counter is large. */
  | { kind: 'refused'; keys: readonly string[] }

/** The rows while operations are applied to them, by key. */
interface States {
  counters: Map<string, RowState>
  sequenceGroups: Map<string, NumberState>
  /** Keys of counters with an operation that was refused, or undone with others of its call. */
  refused: Set<string>
}

/** Applies the operations of a batch, in order of arrival, to what was read. Changes nothing else. */
export function decide(batch: Batch, reading: Reading, keyTtlMs: number): Decision {
  const states: States = { counters: new Map(), sequenceGroups: new Map(), refused: new Set() }
  const gone: string[] = []
  const refused: string[] = []
  for (const work of batch.counters) {
    const { key } = work.row
    const before = reading.counters.get(work)
    if (!before) gone.push(key)
    else if (isTight(work, before)) refused.push(key)
    else states.counters.set(key, stateOf(work, before))
  }
  for (const work of batch.sequenceGroups) {
    const before = reading.sequenceGroups.get(work)
    if (before) states.sequenceGroups.set(work.row.key, numberState(work, before))
    else gone.push(work.row.key)
  }
  if (gone.length > 0) return { kind: 'gone', keys: gone }
  if (refused.length > 0) return { kind: 'refused', keys: refused }

  const stored = new Map<string, StoredResults>()
  for (const earlier of reading.earlier) if (earlier.ageMs < keyTtlMs) stored.set(earlier.claim.key, earlier)
  const toStore: StoredResults[] = []
  const results: (Applied | NthError)[] = []
  for (const call of batch.calls) {
    const { claim } = call.request
    const earlier = claim && stored.get(claim.key)
    const result = earlier ? repeated(earlier, claim) : applyCall(call, states, batch.at)
    results.push(result)
    if (!claim || earlier || result instanceof NthError) continue
    const first = { claim, at: batch.at, results: result.results }
    stored.set(claim.key, first)
    toStore.push(first)
  }

  const counters: { work: CounterWork; write: CounterWrite }[] = []
  for (const [work, before] of reading.counters) {
    const { key } = work.row
    const state = stateIn(states.counters, key)
    if (before.isAdded) {
      if (states.refused.has(key)) refused.push(key)
    } else if (state.isDeleted) counters.push({ work, write: 'deleted' })
    else if (state.counted > 0 || state.isDefined) counters.push({ work, write: writeOf(state, before) })
  }
  const sequenceGroups: { work: SequenceGroupWork; write: NumberState }[] = []
  for (const [work, before] of reading.sequenceGroups) {
    const state = stateIn(states.sequenceGroups, work.row.key)
    const { last, isMoved, closed } = state
    if (before.isAdvanced) {
      const sum = work.path.kind === 'coalesced' ? work.path.sum : Number.NaN
      if (last !== (before.last ?? 0) + sum) refused.push(work.row.key)
    } else if (isMoved || closed.size > 0) sequenceGroups.push({ work, write: state })
  }
  if (refused.length > 0) return { kind: 'refused', keys: refused }
  const toRelease = batch.claims.filter(({ key }) => !stored.has(key))
  return { kind: 'decided', writes: { counters, sequenceGroups, toStore, toRelease }, results }
}

/** Applies the operations of a call: all or none. */
function applyCall({ request, operations }: Call, states: States, at: Date): Applied | NthError {
  if (request.mode === 'one') {
    const [operation] = operations
    assertInvariant(operation !== undefined, 'a call has an operation')
    const result = applyOne(operation, states, at)
    return result instanceof NthError ? result : { results: [result], at, isReplayed: false }
  }
  const changes = operations.flatMap(({ kind, row, operation }) =>
    kind === 'counter' ? [{ row: stateIn(states.counters, row.key), operation }] : [],
  )
  const results = applyAll(changes, at)
  if (!(results instanceof NthError)) return { results, at, isReplayed: false }
  for (const { row } of operations) states.refused.add(row.key)
  return results
}

function applyOne(
  { kind, row, operation }: RowOperation,
  states: States,
  at: Date,
): OperationResult | NthError {
  if (kind === 'sequenceGroup') return applyToSequence(stateIn(states.sequenceGroups, row.key), operation, at)
  const result = apply(stateIn(states.counters, row.key), operation, at)
  if (result instanceof NthError) states.refused.add(row.key)
  return result
}

function stateIn<State>(states: ReadonlyMap<string, State>, key: string): State {
  const state = states.get(key)
  assertInvariant(state !== undefined, 'the row of each operation was read')
  return state
}

function stateOf({ row }: CounterWork, { value, revision, periods }: CounterReading): RowState {
  const state = new RowState(row.definition)
  state.value = value
  state.revision = revision
  if (periods) state.periodTotals = periods.map((each) => ({ period: each.period, value: totalOf(each) }))
  return state
}

/** What to write of a counter that was only locked. */
function writeOf(state: RowState, { value: previousValue, periods = [], now }: CounterReading): CounterWrite {
  const { value, counted, added, raised, isDefined, definition } = state
  const additions = added === 0n ? [] : periods.map((each) => addInPeriod(each, added, now))
  return {
    previousValue,
    value,
    isCounted: counted > 0,
    raised,
    columns: additions.flatMap(({ column = [] }) => column),
    history: additions.flatMap(({ history }) => history),
    definition: isDefined ? definition : undefined,
  }
}

/**
 * Up to this sum, one slot can be changed without a lock on all: 1 024 others, each with small additions at the same
 * time, can't make the sum leave the safe range.
 */
const ROOMY_SUM = 2 ** 52

/** Whether the change of one slot may have to be refused because of the others. */
function isTight({ row, path }: CounterWork, { value, periods = [] }: CounterReading): boolean {
  if (row.definition.slots === 1 || path.kind === 'coalesced' || path.slot === 'all') return false
  return Math.abs(value) > ROOMY_SUM || periods.some((each) => Math.abs(totalOf(each)) > ROOMY_SUM)
}
