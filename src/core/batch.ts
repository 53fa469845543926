import type { Call } from './calls.ts'
import { merge, type Operation, type RowState, type ValueOperation } from './dealing.ts'
import type { Claim } from './idempotency.ts'
import type { Row } from './lane.ts'

/** The calls of one flush, in order of arrival, and what they touch. */
export interface Batch<R extends Row> {
  calls: readonly Call<R>[]
  /** One for each row. */
  runs: Run<R>[]
  /** The run of each operation of each call, in order. */
  parts: Run<R>[]
  /** One for each idempotency key. */
  claims: Claim[]
}

/** One row of a flush. */
export interface Run<R extends Row> extends RowState {
  row: R
  /**
   * All operations on it as one, sent as one statement. Undefined: the row is careful. It is read under lock,
   * its operations are decided one by one, and only then is it written.
   */
  merged: ValueOperation | undefined
  /** Whether its definition may be changed, or it may be deleted. */
  isForDefinition: boolean
  /** Whether somebody asks what was added in its running periods, so that this is to be read. */
  isTold: boolean
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

/** Puts calls together. Careful are also rows that may refuse by what they are. */
export function batchOf<R extends Row>(calls: readonly Call<R>[], care: Care): Batch<R> {
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
        const opened = runOf(call, index, row)
        beCareful(opened, care)
        runs.set(row.key, opened)
        parts.push(opened)
      }
    }
  }
  const batch = { calls, runs: [...runs.values()], parts, claims: [...claims.values()] }
  spreadCare(batch)
  return batch
}

/** Whether a call touches the row or claim of a key. */
export function touches<R extends Row>({ rows, claim }: Call<R>, key: string): boolean {
  return rows.some((row) => row.key === key) || claim?.key === key
}

/** A row as a flush begins with it, for one operation of a call. */
export function runOf<R extends Row>(call: Call<R>, index: number, row: R): Run<R> {
  const operation = call.operations[index]
  const { slots } = row.definition
  const run: Run<R> = {
    row,
    merged: mergeable(call, operation),
    isForDefinition: isForDefinition(operation),
    // Whether there is room for more, one slot alone doesn't tell.
    isTold: slots > 1 || isTold(call, operation),
    slot: slots === 1 ? 0 : Math.floor(Math.random() * slots),
    value: 0,
    definition: row.definition,
    tallies: undefined,
    counted: 0,
    added: 0n,
    isDefined: false,
    isDeleted: false,
    isGone: false,
  }
  if (slots > 1 && !isForOneSlot(operation)) takeAllSlots(run)
  return run
}

function include<R extends Row>(run: Run<R>, call: Call<R>, index: number): void {
  const operation = call.operations[index]
  run.isTold ||= isTold(call, operation)
  if (run.row.definition.slots > 1 && !isForOneSlot(operation)) takeAllSlots(run)
  if (!run.merged) return
  const next = mergeable(call, operation)
  run.merged = next && merge(run.merged, next)
}

function beCareful<R extends Row>(run: Run<R>, { careful, told }: Care): void {
  const { key, definition } = run.row
  if (definition.bounds || careful.has(key)) run.merged = undefined
  if (definition.slots > 1 && (careful.has(key) || told.has(key))) takeAllSlots(run)
  run.isTold ||= told.has(key)
}

function isTold<R extends Row>({ isTold, claim }: Call<R>, operation: Operation | undefined): boolean {
  // A repeat may ask what the first call didn't. What is much may be too much for a period.
  return isTold || claim !== undefined || !isSmall(operation)
}

function isForDefinition(operation: Operation | undefined): boolean {
  return operation?.kind === 'define' || operation?.kind === 'delete'
}

/** An operation that is done whatever is found; undefined for one that is decided under lock. */
function mergeable<R extends Row>(
  { claim }: Call<R>,
  operation: Operation | undefined,
): ValueOperation | undefined {
  return claim || operation?.kind === 'define' || operation?.kind === 'delete' ? undefined : operation
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
export function isTight<R extends Row>({ slot, value, tallies = [], row }: Run<R>): boolean {
  if (row.definition.slots === 1 || slot === undefined) return false
  return Math.abs(value) > ROOMY_SUM || tallies.some((tally) => Math.abs(tally.value) > ROOMY_SUM)
}

function isForOneSlot(operation: Operation | undefined): boolean {
  return operation?.kind === 'add' && isSmall(operation)
}

function isSmall(operation: Operation | undefined): boolean {
  return operation?.kind !== 'add' || Math.abs(operation.delta) <= SMALL_DELTA
}

function takeAllSlots<R extends Row>(run: Run<R>): void {
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
    const own = parts.slice(from, next)
    if (own.some(({ merged }) => !merged)) for (const run of own) run.merged = undefined
  }
}
