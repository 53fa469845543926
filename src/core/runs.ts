import { apply, applyAll, isForCounter, type Operation, type OperationResult } from './applyOperation.ts'
import { applyToSequence } from './applyToSequence.ts'
import { type CounterRun, isCounter, type Run } from './batch.ts'
import type { Applied, Call } from './calls.ts'
import { NthError } from './errors.ts'
import type { GroupRun } from './groupRun.ts'
import { type GroupFound, numberState } from './numberState.ts'
import type { CounterRow, GroupRow, Row, Write } from './writer.ts'

/** Whether there is no such row any more, or it is not as it was known: then it is to be looked up. */
export function isGone<R extends Row>(run: Run<R>): boolean {
  return run.kind === 'group' ? !run.state : run.isGone
}

/** Starts a run with what was found of a group. */
export function beginGroup<G extends GroupRow>(run: GroupRun<G>, found: GroupFound | undefined): void {
  const { row, periodKey } = run
  run.state = found && numberState({ definition: row.definition, group: row.group, periodKey }, found)
}

/** What was found of a row. */
interface CounterFound {
  /** Undefined: there is no such row. */
  value: number | undefined
  periodTotals: readonly number[] | undefined
  revision: number | undefined
}

/** Starts a run with what a row held before. */
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

/** Does what a call asks on its rows: all of it, or nothing. */
export function applyCall<R extends Row>(
  call: Call<R>,
  runs: readonly Run<R>[],
  at: Date,
): Applied | NthError {
  const { operations, mode } = call
  const [run] = runs
  const [operation] = operations
  if (mode === 'one' && run && operation) {
    const answer = applyOne(run, operation, at)
    return answer instanceof NthError ? answer : { answers: [answer], at, isReplayed: false }
  }
  const answers = applyAll(runs.filter(isCounter), operations.filter(isForCounter), at)
  return answers instanceof NthError ? answers : { answers, at, isReplayed: false }
}

function applyOne<R extends Row>(run: Run<R>, operation: Operation, at: Date): OperationResult | NthError {
  if (run.kind === 'counter' && isForCounter(operation)) return apply(run, operation, at)
  if (run.kind === 'group' && run.state && !isForCounter(operation)) {
    return applyToSequence(run.state, operation, at)
  }
  throw new Error('An operation on a row of another kind')
}

/** What is to become of a counter, if it is not written already. */
export function writeOf({ coalesced, ...state }: CounterRun<CounterRow>): Write | undefined {
  const { value, counted, raised, isDefined, isDeleted, definition } = state
  if (coalesced) return undefined
  if (isDeleted) return 'deleted'
  if (counted === 0 && !isDefined) return undefined
  return { value, isCounted: counted > 0, raised, definition: isDefined ? definition : undefined }
}
