import { NthError } from '../errors.ts'
import { repeated, type StoredResults } from '../idempotency.ts'
import type { Row } from '../rows.ts'
import { groupWrite } from '../sequences/state.ts'
import { applyCall, begin, beginGroup, isGone, writeOf } from './applyCall.ts'
import { type Batch, isCounter, isTight } from './batch.ts'
import type { Decision, Found } from './writer.ts'

export interface ApplyOptions {
  at: Date
  /** Receives the keys of rows that take the locked path from then on. */
  lockedPath: Set<string>
  /** How long idempotency keys are valid, in milliseconds. */
  keyTtlMs: number
}

/**
 * Applies all calls in order of arrival, and sets their results. Returns `false`, to roll back, if a row is gone, or if
 * a statement was sent that the results don't confirm, such as one with a refused operation: its row takes the locked
 * path from then on.
 */
export function applyBatch<R extends Row>(
  batch: Batch<R>,
  found: Found,
  { at, lockedPath, keyTtlMs }: ApplyOptions,
): Decision | false {
  const { calls: all, runs, counters, groups, parts, claims } = batch
  for (const [index, run] of counters.entries()) {
    const [value, periodTotals, revision] = [
      found.values[index],
      found.periodTotals[index],
      found.revisions[index],
    ]
    begin(run, { value, periodTotals, revision })
  }
  for (const [index, run] of groups.entries()) beginGroup(run, found.positions[index])
  if (runs.some(isGone)) return false
  const tight = counters.filter(isTight)
  for (const { row } of tight) lockedPath.add(row.key)
  if (tight.length > 0) return false

  const done = new Map<string, StoredResults>()
  for (const earlier of found.earlier) {
    if (earlier.ageMs < keyTtlMs) done.set(earlier.claim.key, earlier)
  }
  const toStore: StoredResults[] = []
  let isAgreed = true
  let next = 0
  for (const call of all) {
    const own = parts.slice(next, next + call.rows.length)
    next += own.length
    const { claim } = call
    const earlier = claim && done.get(claim.key)
    if (earlier) {
      call.result = repeated(earlier, claim)
      continue
    }
    call.result = applyCall(call, own, at)
    if (call.result instanceof NthError) {
      // The coalesced statement included this call, so the row would have a wrong value.
      for (const { row } of own.filter(isCounter).filter(({ coalesced }) => coalesced)) {
        lockedPath.add(row.key)
        isAgreed = false
      }
    } else if (claim) {
      const first = { claim, at, results: call.result.results }
      done.set(claim.key, first)
      toStore.push(first)
    }
  }
  for (const [index, { row, state, rise = 0 }] of groups.entries()) {
    const before = found.positions[index]
    if (!before?.isRisen || state?.last === (before.last ?? 0) + rise) continue
    lockedPath.add(row.key)
    isAgreed = false
  }
  if (!isAgreed) return false
  return {
    writes: counters.map(writeOf),
    groupWrites: groups.map(({ state }, index) =>
      state && !found.positions[index]?.isRisen ? groupWrite(state) : undefined,
    ),
    added: counters.map(({ added }) => added),
    toStore,
    toRelease: claims.filter(({ key }) => !done.has(key)),
  }
}
