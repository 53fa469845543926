import { type Batch, isCounter, isTight } from './batch.ts'
import { NthError } from './errors.ts'
import { type Remembered, repeated } from './idempotency.ts'
import { groupWrite } from './numberState.ts'
import { applyCall, begin, beginGroup, isGone, writeOf } from './runs.ts'
import type { Decision, Found, Row } from './writer.ts'

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

  const done = new Map<string, Remembered>()
  for (const earlier of found.remembered) {
    if (earlier.ageMs < keyTtlMs) done.set(earlier.claim.key, earlier)
  }
  const remember: Remembered[] = []
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
      const first = { claim, at, answers: call.result.answers }
      done.set(claim.key, first)
      remember.push(first)
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
    remember,
    forget: claims.filter(({ key }) => !done.has(key)),
  }
}
