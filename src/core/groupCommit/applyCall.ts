import { apply, applyAll } from '../counters/apply.ts'
import { NthError } from '../errors.ts'
import { isForCounter, type Operation, type OperationResult } from '../operations.ts'
import type { CounterRow, GroupRow, Row } from '../rows.ts'
import { applyToSequence } from '../sequences/apply.ts'
import { type GroupFound, numberState } from '../sequences/state.ts'
import { type CounterRun, isCounter, type Run } from './batch.ts'
import type { Applied, Call } from './pendingCalls.ts'
import type { GroupRun } from './sequenceRun.ts'
import type { Write } from './writer.ts'

/** Whether the row no longer exists or has changed since it was cached. Then it must be resolved again. */
export function isGone<R extends Row>(run: Run<R>): boolean {
  return run.kind === 'group' ? !run.state : run.isGone
}

/** Initializes a run with its sequence group as found. */
export function beginGroup<G extends GroupRow>(run: GroupRun<G>, found: GroupFound | undefined): void {
  const { row, periodKey } = run
  run.state = found && numberState({ definition: row.definition, group: row.group, periodKey }, found)
}

/** A counter's row as found. */
interface CounterFound {
  /** Undefined: the row doesn't exist. */
  value: number | undefined
  periodTotals: readonly number[] | undefined
  revision: number | undefined
}

/** Initializes a run with its row as found. */
export function begin(run: CounterRun<CounterRow>, { value, periodTotals, revision }: CounterFound): void {
  const { definition } = run.row
  run.isGone = value === undefined
  run.value = value ?? 0
  run.definition = definition
  run.periodTotals =
    periodTotals &&
    definition.periods.map(({ period }, index) => ({ period, value: periodTotals[index] ?? 0 }))
  run.counted = 0
  run.added = 0n
  run.revision = revision
  run.raised = 0
  run.isDefined = false
  run.isDeleted = false
}

/** Applies the operations of a call to its rows: all or none. */
export function applyCall<R extends Row>(
  call: Call<R>,
  runs: readonly Run<R>[],
  at: Date,
): Applied | NthError {
  const { operations, mode } = call
  const [run] = runs
  const [operation] = operations
  if (mode === 'one' && run && operation) {
    const result = applyOne(run, operation, at)
    return result instanceof NthError ? result : { results: [result], at, isReplayed: false }
  }
  const results = applyAll(runs.filter(isCounter), operations.filter(isForCounter), at)
  return results instanceof NthError ? results : { results, at, isReplayed: false }
}

function applyOne<R extends Row>(run: Run<R>, operation: Operation, at: Date): OperationResult | NthError {
  if (run.kind === 'counter' && isForCounter(operation)) return apply(run, operation, at)
  if (run.kind === 'group' && run.state && !isForCounter(operation)) {
    return applyToSequence(run.state, operation, at)
  }
  throw new Error('The operation does not fit the kind of its row')
}

/** The write of a counter; undefined: none, or its coalesced statement has written it. */
export function writeOf({ coalesced, ...state }: CounterRun<CounterRow>): Write | undefined {
  const { value, counted, raised, isDefined, isDeleted, definition } = state
  if (coalesced) return undefined
  if (isDeleted) return 'deleted'
  if (counted === 0 && !isDefined) return undefined
  return { value, isCounted: counted > 0, raised, definition: isDefined ? definition : undefined }
}
