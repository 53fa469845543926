import type { Call } from './calls.ts'
import { merge, type RowState, type ValueOperation } from './dealing.ts'
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
  isGone: boolean
}

/** The most rows and keys that one transaction touches, if a single call doesn't touch more. */
const MAX_TOUCHED = 1000
/** The most answers that one transaction keeps under keys: about a megabyte of text. */
const MAX_REMEMBERED = 10_000

/** The first calls of those that wait, as many as one flush may have. */
export function firstOf<R extends Row>(waiting: Iterable<Call<R>>): Call<R>[] {
  const calls: Call<R>[] = []
  const touched = new Set<string>()
  const deleted = new Set<string>()
  let remembered = 0
  for (const call of waiting) {
    const { rows, claim, operations } = call
    // What comes after a deletion counts in another row.
    if (deleted.size > 0 && rows.some(({ key }) => deleted.has(key))) break
    for (const { key } of rows) touched.add(key)
    if (claim) {
      touched.add(claim.key)
      remembered += operations.length
    }
    if (calls.length > 0 && (touched.size > MAX_TOUCHED || remembered > MAX_REMEMBERED)) break
    calls.push(call)
    if (operations[0]?.kind === 'delete') for (const { key } of rows) deleted.add(key)
  }
  return calls
}

/** Puts calls together. Rows whose keys are in `careful` are so, as are those where a refusal is to be expected. */
export function batchOf<R extends Row>(calls: readonly Call<R>[], careful: ReadonlySet<string>): Batch<R> {
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
        const isCareful = row.bounds !== undefined || careful.has(row.key)
        const opened = runOf(call, index, row)
        if (isCareful) opened.merged = undefined
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
  return {
    row,
    merged: mergeable(call, index),
    isForDefinition: isForDefinition(call, index),
    value: 0,
    bounds: row.bounds,
    counted: 0,
    isDefined: false,
    isDeleted: false,
    isGone: false,
  }
}

function include<R extends Row>(run: Run<R>, call: Call<R>, index: number): void {
  run.isForDefinition ||= isForDefinition(call, index)
  if (!run.merged) return
  const operation = mergeable(call, index)
  run.merged = operation && merge(run.merged, operation)
}

function isForDefinition<R extends Row>({ operations }: Call<R>, index: number): boolean {
  const kind = operations[index]?.kind
  return kind === 'define' || kind === 'delete'
}

/** An operation that is done whatever is found; undefined for one that is decided under lock. */
function mergeable<R extends Row>({ operations, claim }: Call<R>, index: number): ValueOperation | undefined {
  const operation = operations[index]
  return claim || operation?.kind === 'define' || operation?.kind === 'delete' ? undefined : operation
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
