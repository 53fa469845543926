import type { Call } from './calls.ts'
import {
  isForCounter,
  merge,
  type Operation,
  type RowState,
  raiseBy,
  type ValueOperation,
} from './dealing.ts'
import { type GroupRun, groupRunOf, includeInGroup } from './groupRun.ts'
import type { Claim } from './idempotency.ts'
import type { CounterRow, GroupRow, Row } from './lane.ts'

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
   * All operations on it as one, sent as one statement. Undefined: the row is careful. It is read under lock,
   * its operations are decided one by one, and only then is it written.
   */
  merged: ValueOperation | undefined
  /** By how much its merged operations raise the revision. */
  raise: number
  /** Whether somebody asks for its revision, so that this is to be read. */
  withRevision: boolean
  /** Whether its definition may be changed, or it may be deleted. */
  isForDefinition: boolean
  /** Whether the totals of its current periods are read, for a caller who wants them or to check their range. */
  wantsPeriodValues: boolean
  /** Of a row with slots, the one that it is about; undefined: all of them, locked. */
  slot: number | undefined
  isGone: boolean
}

/** Rows, by their keys, that need more than the ordinary. */
export interface Care {
  /** A refusal is to be expected: their operations are decided one by one, under lock. */
  careful: ReadonlySet<string>
  /** What was added in their running periods is to be looked at. */
  told: ReadonlySet<string>
  /** The slot that was drawn for each that has slots. */
  slots: Map<string, number>
}

/** The most rows and keys that one transaction touches, if a single call doesn't touch more. */
const MAX_TOUCHED = 1000
/** The most answers that one transaction keeps under keys: about a megabyte of text. */
const MAX_REMEMBERED = 10_000

/** The first calls of those that wait, as many as one flush may have. */
export function firstOf<R extends Row>(waiting: Iterable<Call<R>>): Call<R>[] {
  const calls: Call<R>[] = []
  const touched = new Set<string>()
  const redefined = new Set<string>()
  let remembered = 0
  for (const call of waiting) {
    const { rows, claim, operations } = call
    // What comes after a definition or deletion counts in another row. These are alone on theirs.
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

/** Puts calls together, as of an instant. Careful are also rows that may refuse by what they are. */
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
        if (opened.kind === 'counter') beCareful(opened, care)
        else if (care.careful.has(row.key)) opened.rise = undefined
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
  spreadCare(batch)
  return batch
}

/** Whether a call touches the row, sequence or claim of a key. */
export function touches<R extends Row>(call: Call<R>, key: string): boolean {
  return call.rows.some((row) => isOf(row, key)) || call.claim?.key === key
}

/** Whether a row is the one of a key, or a group of a sequence of that key. */
export function isOf(row: Row, key: string): boolean {
  return row.key === key || (row.kind === 'group' && row.sequenceKey === key)
}

/** A row as a flush begins with it, for one operation of a call. */
export function runOf<R extends Row>(
  call: Call<R>,
  index: number,
  row: R,
  { at, slots }: { at: Date; slots: Map<string, number> },
): Run<R> {
  const operation = call.operations[index]
  if (isGroupRow(row)) return groupRunOf(call, operation, row, at)
  if (isCounterRow(row)) return counterRunOf(call, operation, row, slots)
  throw new Error('A row of no kind')
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
    merged: mergeable(call, operation),
    raise: raiseOf(operation),
    withRevision: call.withRevision === true,
    isForDefinition: isForDefinition(operation),
    // Whether there is room for more, one slot alone doesn't tell.
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

/** The same as long as a call is tried again: others may hold another one locked. */
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
  if (!run.merged) return
  const next = mergeable(call, operation)
  run.merged = next && merge(run.merged, next)
}

function beCareful(run: CounterRun<CounterRow>, { careful, told }: Care): void {
  const { key, definition } = run.row
  if (definition.bounds || careful.has(key)) run.merged = undefined
  if (definition.slots > 1 && (careful.has(key) || told.has(key))) takeAllSlots(run)
  run.wantsPeriodValues ||= told.has(key)
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

/** An operation that is done whatever is found; undefined for one that is decided under lock. */
function mergeable<R extends Row>(
  { claim }: Call<R>,
  operation: Operation | undefined,
): ValueOperation | undefined {
  if (claim || !operation || !isForCounter(operation)) return undefined
  return operation.kind === 'define' || operation.kind === 'delete' ? undefined : operation
}

/**
 * Up to here the sum of a row's slots needs no lock on all of them to be as good as known: what 1 024 others, each
 * with 10 000 small additions, may do meanwhile doesn't lead out of the safe range.
 */
const ROOMY_SUM = 2 ** 52
const SMALL_DELTA = 2 ** 28

/** More than small additions of one flush make together. */
export const SMALL_SUM = 2 ** 42

/** Whether what is done in one slot may have to be refused, for what is in the others. */
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
  run.merged = undefined
}

/** If one row of a call that is all or nothing may refuse, the others must wait for it. */
function spreadCare<R extends Row>({ calls, parts }: Batch<R>): void {
  let next = 0
  for (const { rows, mode } of calls) {
    const from = next
    next += rows.length
    if (mode !== 'all') continue
    const own = parts.slice(from, next).filter(isCounter)
    if (own.some(({ merged }) => !merged)) for (const run of own) run.merged = undefined
  }
}
