import type { Operation } from '../operations.ts'

import type { GroupRow, Row } from '../rows.ts'
import type { NumberState } from '../sequences/state.ts'
import { periodKeyOf } from '../time/periodKey.ts'
import type { Call } from './pendingCalls.ts'

/** One sequence group of a flush. */
export interface GroupRun<R extends GroupRow> {
  kind: 'group'
  row: R
  /** Key of its current period. */
  periodKey: number
  /**
   * How much its last number rises if all operations on it issue numbers, and none reaches the end. They are then sent
   * as one statement. Undefined: the locked path.
   */
  rise: number | undefined
  /** Number of operations on it. */
  operations: number
  /** Whether a caller wants its revision. */
  withRevision: boolean
  /** Number of reservations to make. */
  reservations: number
  /** Tokens of the reservations to confirm or release. */
  tokens: string[]
  /** Its state, once read; undefined: it is gone, or did not rise by `rise`. */
  state: NumberState | undefined
}

/** A run with one operation of a call. */
export function groupRunOf<R extends Row, G extends GroupRow>(
  call: Call<R>,
  operation: Operation | undefined,
  row: G,
  at: Date,
): GroupRun<G> {
  const { restartEvery, timeZone } = row.definition
  const periodKey = periodKeyOf(restartEvery, timeZone, at)
  const run: GroupRun<G> = {
    kind: 'group',
    row,
    periodKey,
    rise: 0,
    operations: 0,
    withRevision: false,
    reservations: 0,
    tokens: [],
    state: undefined,
  }
  includeInGroup(run, call, operation)
  return run
}

/** Adds an operation to a run. */
export function includeInGroup<R extends Row>(
  run: GroupRun<GroupRow>,
  { claim, withRevision }: Call<R>,
  operation: Operation | undefined,
): void {
  const rise =
    operation?.kind === 'next' && !claim && run.rise !== undefined
      ? run.rise + operation.count * run.row.definition.step
      : undefined
  run.rise = Number.isSafeInteger(rise) ? rise : undefined
  run.operations += 1
  run.withRevision ||= withRevision === true
  if (operation?.kind === 'reserve') run.reservations += 1
  if (operation?.kind === 'confirm' || operation?.kind === 'release') run.tokens.push(operation.token)
}
