import { apply, applyAll } from '../counters/apply.ts'
import { NthError } from '../errors.ts'
import { repeated, type StoredResults } from '../idempotency.ts'
import type { OperationResult } from '../operations.ts'
import type { Batch, BatchedCall, RunOperation } from './batch.ts'
import type { Call } from './call.ts'
import type { Precautions } from './precautions.ts'
import type { Applied } from './request.ts'
import type { Decision, Found } from './writer.ts'

/**
 * Applies all calls in order of arrival. Returns what the flush writes, and what its callers get if it commits. Returns
 * `withdraw` if a row is gone, or if a statement was sent that the results don't confirm, such as one with a refused
 * operation: its row takes the locked path from then on.
 */
export function applyBatch(
  batch: Batch,
  found: Found,
  { at, precautions, keyTtlMs }: { at: Date; precautions: Precautions; keyTtlMs: number },
): { decision: Decision; results: Map<Call, Applied | NthError> } | 'withdraw' {
  const { counters, sequenceGroups, claims } = batch
  const runs = [...counters, ...sequenceGroups]
  for (const run of counters) run.begin(found.counters.get(run))
  for (const run of sequenceGroups) run.begin(found.sequenceGroups.get(run))
  if (runs.some(({ isGone }) => isGone)) return 'withdraw'
  const takeLockedPath = (all: typeof runs) => {
    for (const { row } of all) precautions.lockedPath.add(row.key)
    return all.length > 0
  }
  if (takeLockedPath(counters.filter((run) => run.isTight()))) return 'withdraw'

  const known = new Map<string, StoredResults>()
  for (const one of found.earlier) if (one.ageMs < keyTtlMs) known.set(one.claim.key, one)
  const toStore: StoredResults[] = []
  const results = new Map<Call, Applied | NthError>()
  for (const one of batch.calls) {
    const { call } = one
    const { claim } = call.request
    const earlier = claim && known.get(claim.key)
    const result = earlier ? repeated(earlier, claim) : applyCall(one, at)
    results.set(call, result)
    if (!claim || earlier || result instanceof NthError) continue
    const stored = { claim, at, results: result.results }
    known.set(claim.key, stored)
    toStore.push(stored)
  }
  if (takeLockedPath(runs.filter((run) => !run.isAsSent()))) return 'withdraw'
  return {
    results,
    decision: {
      counters: writesOf(counters),
      sequenceGroups: writesOf(sequenceGroups),
      toStore,
      toRelease: claims.filter(({ key }) => !known.has(key)),
    },
  }
}

function writesOf<Run, Write>(runs: readonly (Run & { write(): Write | undefined })[]) {
  return runs.flatMap((run) => {
    const write = run.write()
    return write ? [{ run, write }] : []
  })
}

/** Applies the operations of a call: all or none. */
function applyCall({ call, operations }: BatchedCall, at: Date): Applied | NthError {
  const results =
    call.request.mode === 'one' ? applyOne(operations, at) : applyAll(onCounters(operations), at)
  if (!(results instanceof NthError)) return { results, at, isReplayed: false }
  // The coalesced statements included this call, so the counters would have wrong values.
  for (const { row } of onCounters(operations)) row.isRefused = true
  return results
}

function applyOne(operations: readonly RunOperation[], at: Date): OperationResult[] | NthError {
  const results: OperationResult[] = []
  for (const one of operations) {
    const result =
      one.kind === 'counter' ? apply(one.run, one.operation, at) : one.run.apply(one.operation, at)
    if (result instanceof NthError) return result
    results.push(result)
  }
  return results
}

function onCounters(operations: readonly RunOperation[]) {
  const some = operations.filter((one) => one.kind === 'counter')
  return some.map(({ run, operation }) => ({ row: run, operation }))
}
