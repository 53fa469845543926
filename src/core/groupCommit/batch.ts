import type { CounterOperation } from '../counters/apply.ts'
import type { Definition } from '../counters/definition.ts'
import { type RunningPeriod, runningAt } from '../counters/runningPeriods.ts'
import type { Claim } from '../idempotency.ts'
import type { SequenceOperation } from '../sequences/state.ts'
import type { Call } from './call.ts'
import { CounterRun, isForDefinition } from './counterRun.ts'
import type { Precautions } from './precautions.ts'
import { SequenceRun } from './sequenceRun.ts'
import type { Flush } from './writer.ts'

/** The calls of one attempt of a flush, in order of arrival, and what they touch. */
export interface Batch extends Pick<Flush, 'counters' | 'sequenceGroups' | 'claims'> {
  calls: readonly BatchedCall[]
}

export interface BatchedCall {
  call: Call
  operations: readonly RunOperation[]
}

export type RunOperation =
  | { kind: 'counter'; run: CounterRun; operation: CounterOperation }
  | { kind: 'sequenceGroup'; run: SequenceRun; operation: SequenceOperation }

/** Maximum rows and keys of a transaction, unless a single call touches more. */
const MAX_TOUCHED = 1000
/** Maximum results that a transaction stores under idempotency keys: about a megabyte of text. */
const MAX_STORED = 10_000

/** The first waiting calls, as many as fit into one flush. */
export function firstOf(waiting: Iterable<Call>): Call[] {
  const calls: Call[] = []
  const touched = new Set<string>()
  const redefined = new Set<string>()
  let stored = 0
  for (const call of waiting) {
    const { operations } = call
    const { claim } = call.request
    // Calls after a definition or deletion change another row. Those operations are alone on theirs.
    if (redefined.size > 0 && operations.some(({ row }) => redefined.has(row.key))) break
    const isRedefining = operations.some(({ operation }) => isForDefinition(operation))
    if (isRedefining && operations.some(({ row }) => touched.has(row.key))) break
    for (const { row } of operations) touched.add(row.key)
    if (claim) {
      touched.add(claim.key)
      stored += operations.length
    }
    if (calls.length > 0 && (touched.size > MAX_TOUCHED || stored > MAX_STORED)) break
    calls.push(call)
    if (isRedefining) for (const { row } of operations) redefined.add(row.key)
  }
  return calls
}

/** Groups the operations of calls by row. */
export function batchOf(calls: readonly Call[], precautions: Precautions, at: Date): Batch {
  const counters = new Map<string, CounterRun>()
  const sequenceGroups = new Map<string, SequenceRun>()
  const claims = new Map<string, Claim>()
  const runningIn = openRunningPeriods(at)

  const batched = calls.map((call): BatchedCall => {
    const { request } = call
    if (request.claim) claims.set(request.claim.key, request.claim)
    const operations = call.operations.map((one): RunOperation => {
      if (one.kind === 'counter') {
        const run = runIn(
          counters,
          one.row.key,
          () => new CounterRun(one.row, precautions, runningIn(one.row.definition)),
        )
        run.include(one.operation, request)
        return { kind: 'counter', run, operation: one.operation }
      }
      const run = runIn(sequenceGroups, one.row.key, () => new SequenceRun(one.row, precautions, at))
      run.include(one.operation, request)
      return { kind: 'sequenceGroup', run, operation: one.operation }
    })
    return { call, operations }
  })
  shareLockedPath(batched)
  return {
    calls: batched,
    counters: [...counters.values()],
    sequenceGroups: [...sequenceGroups.values()],
    claims: [...claims.values()],
  }
}

function runIn<Run>(runs: Map<string, Run>, key: string, open: () => Run): Run {
  const run = runs.get(key)
  if (run) return run
  const opened = open()
  runs.set(key, opened)
  return opened
}

/** Computes running periods once for each time zone and list of periods: most counters share theirs. */
function openRunningPeriods(at: Date): (definition: Definition) => readonly RunningPeriod[] {
  const byDefinition = new Map<Definition, readonly RunningPeriod[]>()
  const byContent = new Map<string, readonly RunningPeriod[]>()
  return (definition) => {
    const known = byDefinition.get(definition)
    if (known) return known
    const content = [definition.timeZone, ...definition.periods.map(({ period }) => period)].join()
    const running = byContent.get(content) ?? runningAt(definition, at.getTime())
    byContent.set(content, running)
    byDefinition.set(definition, running)
    return running
  }
}

/** If one row of an all-or-nothing call may refuse, its other rows take the locked path as well. */
function shareLockedPath(calls: readonly BatchedCall[]): void {
  for (const { call, operations } of calls) {
    if (call.request.mode === 'one') continue
    const mayRefuse = operations.some((one) => one.kind === 'counter' && one.run.addition === undefined)
    if (mayRefuse) for (const { run } of operations) run.takeLockedPath()
  }
}
