import type { Operation } from './applyOperation.ts'
import type { Call } from './calls.ts'
import type { NumberState } from './numberState.ts'
import { periodKeyOf } from './periodKey.ts'
import type { GroupRow, Row } from './writer.ts'

/** One group of a flush. */
export interface GroupRun<R extends GroupRow> {
  kind: 'group'
  row: R
  /** Of its running period. */
  periodKey: number
  /**
   * By how much its last number rises if all operations on it take numbers, and none comes to an end: so they may be
   * sent as one. Undefined: they are decided one by one, under lock.
   */
  rise: number | undefined
  /** How many operations there are on it. */
  operations: number
  /** Whether somebody asks for its revision. */
  withRevision: boolean
  /** How many numbers are to be reserved. */
  reservations: number
  /** The reservations that are to be confirmed or given back. */
  tokens: string[]
  /** What it holds, once that is known; undefined: it is gone, or did not rise as it was to. */
  state: NumberState | undefined
}

/** A group as a flush begins with it, for one operation of a call. */
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

/** Adds an operation to those of a group. */
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
