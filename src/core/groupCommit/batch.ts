import { coalesce, type RowState, raiseBy, type ValueOperation } from '../counters/apply.ts'
import type { Claim } from '../idempotency.ts'
import { isForCounter, type Operation } from '../operations.ts'
import type { CounterRow, GroupRow, Row } from '../rows.ts'
import type { Call } from './pendingCalls.ts'
import { type GroupRun, groupRunOf, includeInGroup } from './sequenceRun.ts'

/** The calls of one flush, in order of arrival, and what they touch. */
export interface Batch<R extends Row> {
  calls: readonly Call<R>[]
  /** One for each row. */
  runs: Run<R>[]
  counters: CounterRun<R & CounterRow>[]
  groups: GroupRun<R & GroupRow>[]
  /** The run of each operation of each call, in order. */
  parts: Run<R>[]
  /** One for each idempotency key. */
  claims: Claim[]
}

/** One row of a flush. */
export type Run<R extends Row> = CounterRun<R & CounterRow> | GroupRun<R & GroupRow>

/** One counter of a flush. */
export interface CounterRun<R extends CounterRow> extends RowState {
  kind: 'counter'
  row: R
  /**
   * All operations on it as one, sent as one statement. Undefined: the locked path. The row is read under lock, its
   * operations are applied one by one, and then it is written.
   */
  coalesced: ValueOperation | undefined
  /** How much its coalesced operations raise the revision. */
  raise: number
  /** Whether a caller wants its revision. */
  withRevision: boolean
  /** Whether its definition may be changed, or it may be deleted. */
  isForDefinition: boolean
  /** Whether the totals of its current periods are read, for a caller who wants them or to check their range. */
  wantsPeriodValues: boolean
  /** The slot that is changed; undefined: all of them, under lock. */
  slot: number | undefined
  isGone: boolean
}

/** Keys of rows that need more than a coalesced statement. */
export interface Care {
  /** Their operations may be refused, so they take the locked path. */
  lockedPath: ReadonlySet<string>
  /** Their period totals must be read, as they may overflow. */
  withPeriodTotals: ReadonlySet<string>
  /** The slot chosen for each row with slots. */
  slots: Map<string, number>
}

/** Maximum rows and keys of a transaction, unless a single call touches more. */
const MAX_TOUCHED = 1000
/** Maximum results that a transaction stores under idempotency keys: about a megabyte of text. */
const MAX_REMEMBERED = 10_000

/** The first waiting calls, as many as fit into one flush. */
export function firstOf<R extends Row>(waiting: Iterable<Call<R>>): Call<R>[] {
  const calls: Call<R>[] = []
  const touched = new Set<string>()
  const redefined = new Set<string>()
  let remembered = 0
  for (const call of waiting) {
    const { rows, claim, operations } = call
    // Calls after a definition or deletion change another row. Those operations are alone on theirs.
    if (redefined.size > 0 && rows.some(({ key }) => redefined.has(key))) break
    const isRedefining = isForDefinition(operations[0])
    if (isRedefining && rows.some(({ key }) => touched.has(key))) break
    for (const { key } of rows) touched.add(key)
    if (claim) {
      touched.add(claim.key)
      remembered += operations.length
    }
    if (calls.length > 0 && (touched.size > MAX_TOUCHED || remembered > MAX_REMEMBERED)) break
    calls.push(call)
    if (isRedefining) for (const { key } of rows) redefined.add(key)
  }
  return calls
}

/** Groups the operations of calls by row. Rows with bounds take the locked path as well. */
export function batchOf<R extends Row>(calls: readonly Call<R>[], care: Care, at: Date): Batch<R> {
  const runs = new Map<string, Run<R>>()
  const parts: Run<R>[] = []
  const claims = new Map<string, Claim>()
  for (const call of calls) {
    if (call.claim) claims.set(call.claim.key, call.claim)
    for (const [index, row] of call.rows.entries()) {
      const run = runs.get(row.key)
      if (run) {
        include(run, call, index)
        parts.push(run)
      } else {
        const opened = runOf(call, index, row, { at, slots: care.slots })
        if (opened.kind === 'counter') useLockedPath(opened, care)
        else if (care.lockedPath.has(row.key)) opened.rise = undefined
        runs.set(row.key, opened)
        parts.push(opened)
      }
    }
  }
  const all = [...runs.values()]
  const batch = {
    calls,
    runs: all,
    counters: all.filter(isCounter),
    groups: all.filter(isGroup),
    parts,
    claims: [...claims.values()],
  }
  shareLockedPath(batch)
  return batch
}

/** Whether a call touches the row, sequence or claim of a key. */
export function touches<R extends Row>(call: Call<R>, key: string): boolean {
  return call.rows.some((row) => isOf(row, key)) || call.claim?.key === key
}

/** Whether a row has a key, or is a sequence group of the sequence with that key. */
export function isOf(row: Row, key: string): boolean {
  return row.key === key || (row.kind === 'group' && row.sequenceKey === key)
}

/** A run with one operation of a call. */
export function runOf<R extends Row>(
  call: Call<R>,
  index: number,
  row: R,
  { at, slots }: { at: Date; slots: Map<string, number> },
): Run<R> {
  const operation = call.operations[index]
  if (isGroupRow(row)) return groupRunOf(call, operation, row, at)
  if (isCounterRow(row)) return counterRunOf(call, operation, row, slots)
  throw new Error('Unknown kind of row')
}

export function isCounter<R extends Row>(run: Run<R>): run is CounterRun<R & CounterRow> {
  return run.kind === 'counter'
}

function isGroup<R extends Row>(run: Run<R>): run is GroupRun<R & GroupRow> {
  return run.kind === 'group'
}

function isCounterRow<R extends Row>(row: R): row is R & CounterRow {
  return row.kind === 'counter'
}

function isGroupRow<R extends Row>(row: R): row is R & GroupRow {
  return row.kind === 'group'
}

function counterRunOf<R extends Row, C extends CounterRow>(
  call: Call<R>,
  operation: Operation | undefined,
  row: C,
  drawn: Map<string, number>,
): CounterRun<C> {
  const { slots } = row.definition
  const run: CounterRun<C> = {
    kind: 'counter',
    row,
    coalesced: coalescible(call, operation),
    raise: raiseOf(operation),
    withRevision: call.withRevision === true,
    isForDefinition: isForDefinition(operation),
    // One slot alone doesn't show whether the sum has room for more.
    wantsPeriodValues: slots > 1 || wantsPeriodValues(call, operation),
    slot: slots === 1 ? 0 : slotOf(row, drawn),
    value: 0,
    definition: row.definition,
    periodTotals: undefined,
    counted: 0,
    added: 0n,
    revision: undefined,
    raised: 0,
    isDefined: false,
    isDeleted: false,
    isGone: false,
  }
  if (slots > 1 && !isForOneSlot(operation)) takeAllSlots(run)
  return run
}

/** The same in all attempts of a flush: another session may hold another slot locked. */
function slotOf({ key, definition }: CounterRow, drawn: Map<string, number>): number {
  const slot = drawn.get(key) ?? Math.floor(Math.random() * definition.slots)
  drawn.set(key, slot)
  return slot
}

function include<R extends Row>(run: Run<R>, call: Call<R>, index: number): void {
  const operation = call.operations[index]
  if (run.kind === 'group') {
    includeInGroup(run, call, operation)
    return
  }
  run.wantsPeriodValues ||= wantsPeriodValues(call, operation)
  run.withRevision ||= call.withRevision === true
  run.raise += raiseOf(operation)
  if (run.row.definition.slots > 1 && !isForOneSlot(operation)) takeAllSlots(run)
  if (!run.coalesced) return
  const next = coalescible(call, operation)
  run.coalesced = next && coalesce(run.coalesced, next)
}

function useLockedPath(run: CounterRun<CounterRow>, { lockedPath, withPeriodTotals }: Care): void {
  const { key, definition } = run.row
  if (definition.bounds || lockedPath.has(key)) run.coalesced = undefined
  if (definition.slots > 1 && (lockedPath.has(key) || withPeriodTotals.has(key))) takeAllSlots(run)
  run.wantsPeriodValues ||= withPeriodTotals.has(key)
}

function wantsPeriodValues<R extends Row>(
  { wantsPeriodValues, claim }: Call<R>,
  operation: Operation | undefined,
): boolean {
  // A repeat may want what the first call didn't. A large delta may overflow a period.
  return wantsPeriodValues || claim !== undefined || !isSmall(operation)
}

function raiseOf(operation: Operation | undefined): number {
  return raiseBy(operation?.kind === 'add' ? operation.delta : null)
}

function isForDefinition(operation: Operation | undefined): boolean {
  return operation?.kind === 'define' || operation?.kind === 'delete'
}

/** The operation, if it applies to any state; undefined if it must be decided under lock. */
function coalescible<R extends Row>(
  { claim }: Call<R>,
  operation: Operation | undefined,
): ValueOperation | undefined {
  if (claim || !operation || !isForCounter(operation)) return undefined
  return operation.kind === 'define' || operation.kind === 'delete' ? undefined : operation
}

/**
 * Up to this sum, one slot can be changed without a lock on all: 1 024 others, each with 10 000 small additions at the
 * same time, can't make the sum leave the safe range.
 */
const ROOMY_SUM = 2 ** 52
const SMALL_DELTA = 2 ** 28

/** More than the small additions of one flush can add up to. */
export const SMALL_SUM = 2 ** 42

/** Whether a change of one slot may have to be refused because of the others. */
export function isTight({ slot, value, periodTotals = [], row }: CounterRun<CounterRow>): boolean {
  if (row.definition.slots === 1 || slot === undefined) return false
  return Math.abs(value) > ROOMY_SUM || periodTotals.some((total) => Math.abs(total.value) > ROOMY_SUM)
}

function isForOneSlot(operation: Operation | undefined): boolean {
  return operation?.kind === 'add' && isSmall(operation)
}

function isSmall(operation: Operation | undefined): boolean {
  return operation?.kind !== 'add' || Math.abs(operation.delta) <= SMALL_DELTA
}

function takeAllSlots(run: CounterRun<CounterRow>): void {
  run.slot = undefined
  run.coalesced = undefined
}

/** If one row of an all-or-nothing call may refuse, its other rows take the locked path as well. */
function shareLockedPath<R extends Row>({ calls, parts }: Batch<R>): void {
  let next = 0
  for (const { rows, mode } of calls) {
    const from = next
    next += rows.length
    if (mode !== 'all') continue
    const own = parts.slice(from, next).filter(isCounter)
    if (own.some(({ coalesced }) => !coalesced)) for (const run of own) run.coalesced = undefined
  }
}
