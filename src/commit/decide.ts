import { RowState } from '../rules/addition.ts'
import { type CounterOperation, type CounterResult, lostValue, zoneFault } from '../rules/counter.ts'
import { apply, applyAll } from '../rules/counterOperations.ts'
import { assertInvariant, NthError } from '../rules/errors.ts'
import { type HoldResult, type OperationResult, repeated, type StoredResults } from '../rules/idempotency.ts'
import { totalOf, UNKNOWN_PERIODS } from '../rules/periods.ts'
import { rowKey } from '../rules/rows.ts'
import { applyToSequence, numberState } from '../rules/sequence.ts'
import type {
  Batch,
  CounterReading,
  CounterWork,
  CounterWrite,
  Reading,
  SequenceGroupWrite,
  Writes,
} from './batch.ts'
import type { Applied, Call, RowOperation } from './call.ts'
import { changesHolds } from './holdStatements.ts'

export type Decision =
  /** What to write, and the result of each call if that is committed, in the order of the calls. */
  | { kind: 'decided'; writes: Writes; results: readonly (Applied | NthError)[] }
  /** Rows that don't exist. */
  | { kind: 'gone'; keys: readonly string[] }
  /** Counters that must take the locked path: a coalesced operation was refused, or the sum of a slot's counter is large. */
  | { kind: 'refused'; ids: readonly number[] }

/** The rows while operations are applied to them, by id. */
interface States {
  counters: Map<number, CounterWrite>
  sequenceGroups: Map<number, SequenceGroupWrite>
  /** Ids of counters with an operation that was refused, or undone with others of its call. */
  refused: Set<number>
}

/** Applies the operations of a batch, in order of arrival, to what was read. Changes nothing else. */
export function decide(batch: Batch, reading: Reading, keyTtlMs: number): Decision {
  const states: States = { counters: new Map(), sequenceGroups: new Map(), refused: new Set() }
  const gone: string[] = []
  const refused: number[] = []
  for (const work of batch.counters) {
    const { id } = work.row
    const before = reading.counters.get(work)
    if (!before) gone.push(rowKey(work.row))
    else if (isTight(work, before)) refused.push(id)
    else states.counters.set(id, { work, before, after: stateOf(work, before) })
  }
  for (const work of batch.sequenceGroups) {
    const before = reading.sequenceGroups.get(work)
    if (before) states.sequenceGroups.set(work.row.id, { work, before, after: numberState(work, before) })
    else gone.push(rowKey(work.row))
  }
  if (gone.length > 0) return { kind: 'gone', keys: gone }
  if (refused.length > 0) return { kind: 'refused', ids: refused }

  const stored = new Map<string, StoredResults>()
  for (const earlier of reading.earlier) if (earlier.ageMs < keyTtlMs) stored.set(earlier.claim.hash, earlier)
  const toStore: StoredResults[] = []
  const results: (Applied | NthError)[] = []
  for (const call of batch.calls) {
    const { claim } = call.request
    const earlier = claim && stored.get(claim.hash)
    const result = earlier ? repeated(earlier, claim) : applyCall(call, states, batch.at)
    results.push(result)
    if (!claim || earlier || result instanceof NthError) continue
    const first = { claim, at: batch.at, results: result.results }
    stored.set(claim.hash, first)
    toStore.push(first)
  }

  const counters: CounterWrite[] = []
  for (const write of states.counters.values()) {
    const { work, before, after } = write
    if (before.isAdded && states.refused.has(work.row.id)) refused.push(work.row.id)
    if (!before.isAdded && (after.counted > 0 || after.isDefined || changesHolds(write))) counters.push(write)
  }
  const sequenceGroups = [...states.sequenceGroups.values()].filter(
    ({ after }) => after.changes.isMoved || after.changes.reservations.size > 0,
  )
  if (refused.length > 0) return { kind: 'refused', ids: refused }
  const toRelease = batch.claims.filter(({ hash }) => !stored.has(hash))
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
    kind === 'counter' ? [{ row: stateIn(states.counters, row.id), operation }] : [],
  )
  const results = applyAll(changes, at)
  if (!(results instanceof NthError))
    return { results: heldBy(changes, results) ?? results, at, isReplayed: false }
  for (const { row } of operations) states.refused.add(row.id)
  return results
}

/** The result of a new hold; undefined: these are other operations. */
function heldBy(
  [first]: readonly { operation: CounterOperation }[],
  [result]: readonly CounterResult[],
): [HoldResult] | undefined {
  if (first?.operation.kind !== 'hold' || !result?.part) return undefined
  return [{ kind: 'hold', token: first.operation.token, expiresAt: result.part.expiresAt }]
}

function applyOne(
  { kind, row, operation }: RowOperation,
  states: States,
  at: Date,
): OperationResult | NthError {
  if (kind === 'sequenceGroup') return applyToSequence(stateIn(states.sequenceGroups, row.id), operation, at)
  const result = apply(stateIn(states.counters, row.id), operation, at)
  if (result instanceof NthError) states.refused.add(row.id)
  return result
}

function stateIn<State>(states: ReadonlyMap<number, { after: State }>, id: number): State {
  const state = states.get(id)
  assertInvariant(state !== undefined, 'the row of each operation was read')
  return state.after
}

function stateOf({ row, running }: CounterWork, before: CounterReading): RowState {
  const { value, revision, periods, subjects, held, parts, isLost, isNew } = before
  const state = new RowState(row.definition)
  state.value = value
  state.revision = revision
  if (isNew) state.isNew = true
  if (isLost) state.fault = lostValue()
  else if (running === UNKNOWN_PERIODS) state.fault = zoneFault(row.definition.timeZone)
  if (subjects) state.subjects = new Map(subjects)
  state.held = held
  if (parts) state.parts = new Map(parts)
  if (periods) state.periodTotals = Object.fromEntries(periods.map((each) => [each.period, totalOf(each)]))
  return state
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
