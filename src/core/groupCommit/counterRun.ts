import { type CounterOperation, RowState, raiseBy } from '../counters/apply.ts'
import type { Definition } from '../counters/definition.ts'
import {
  addInPeriod,
  type ColumnWrite,
  type FoundPeriod,
  type PeriodAddition,
  type RunningPeriod,
  totalOf,
} from '../counters/runningPeriods.ts'
import type { CounterRow } from '../rows.ts'
import type { Precautions } from './precautions.ts'
import type { Request } from './request.ts'

/** A counter as a flush finds it. */
export interface CounterFound {
  /** The value before. */
  value: number
  /** The revision before, where wanted; of some also where not. */
  revision: number | undefined
  /** Whether its addition was made. If it was not, its operations are applied one by one. */
  isAdded: boolean
  /** Its running periods before; undefined: not read. */
  periods: readonly FoundPeriod[] | undefined
  /** The database's clock, in milliseconds since 1970, if a period is not the running one. */
  now: number
}

/** The new state of a locked counter. */
export type CounterWrite =
  | 'deleted'
  | {
      value: number
      isCounted: boolean
      raised: number
      columns: readonly ColumnWrite[]
      history: readonly PeriodAddition[]
      /** The new one, if changed. */
      definition: Definition | undefined
    }

/** The operations of one flush on one counter. */
export class CounterRun extends RowState {
  readonly row: CounterRow
  /** Its tracked periods that contain the instant of the flush: the same array for all counters with the same. */
  readonly running: readonly RunningPeriod[]
  /**
   * The sum of all operations on it, if all are additions: sent as one statement, which changes nothing unless the row
   * has the running periods. Undefined: the locked path. The row is read under lock, its operations are applied one by
   * one, and then it is written.
   */
  addition: number | undefined
  /** How much its operations raise the revision. */
  raise = 0
  withRevision = false
  /** Whether its definition may be changed, or it may be deleted. */
  isForDefinition = false
  /** Whether a caller wants the totals of its running periods. */
  wantsPeriodValues = false
  /** The slot that is changed; undefined: all of them, under lock. */
  slot: number | undefined

  isGone = false
  /** The value before all operations. */
  before = 0
  /** Whether an operation on it was refused, or undone with others of its call. */
  isRefused = false
  /** Sum of the absolute values of its additions. */
  #volume = 0
  #found: CounterFound | undefined

  constructor(row: CounterRow, precautions: Precautions, running: readonly RunningPeriod[]) {
    const { slots, bounds } = row.definition
    super(row.definition)
    this.row = row
    this.running = running
    const isLocked = precautions.lockedPath.has(row.key)
    this.addition = bounds || isLocked || slots > 1 ? undefined : 0
    this.slot = slots === 1 ? 0 : isLocked ? undefined : precautions.slotOf(row)
  }

  include(operation: CounterOperation, { claim, wantsPeriodValues, withRevision }: Request): void {
    if (wantsPeriodValues) this.wantsPeriodValues = true
    if (withRevision) this.withRevision = true
    if (isForDefinition(operation)) this.isForDefinition = true
    const isAddition = operation.kind === 'add'
    this.raise += raiseBy(isAddition ? operation.delta : null)
    this.#volume += isAddition ? Math.abs(operation.delta) : 0
    // Without slots, the locked path also reads the totals of the periods, which a large addition may overflow.
    const isRoomy = isAddition && this.#volume <= SMALL_SUM
    this.addition =
      isRoomy && !claim && this.addition !== undefined ? this.addition + operation.delta : undefined
    // One slot alone doesn't show whether the sum has room for more.
    if (this.row.definition.slots > 1 && !isRoomy) this.slot = undefined
  }

  takeLockedPath(): void {
    this.addition = undefined
  }

  /** Sets its state as found; undefined: the row doesn't exist. */
  begin(found: CounterFound | undefined): void {
    this.isGone = found === undefined
    if (!found) return
    this.#found = found
    this.before = found.value
    this.value = found.value
    this.revision = found.revision
    if (!found.isAdded) this.addition = undefined
    this.periodTotals = found.periods?.map((one) => ({ period: one.period, value: totalOf(one) }))
  }

  /** Whether the statement that made its addition had the effect of its operations. */
  isAsSent(): boolean {
    return this.addition === undefined || !this.isRefused
  }

  /** What to write; undefined: nothing, or the statement that made its addition has written it. */
  write(): CounterWrite | undefined {
    const { value, counted, added, raised, isDefined, definition } = this
    if (this.addition !== undefined) return undefined
    if (this.isDeleted) return 'deleted'
    if (counted === 0 && !isDefined) return undefined
    const { periods = [], now = 0 } = this.#found ?? {}
    const writes = added === 0n ? [] : periods.map((one) => addInPeriod(one, added, now))
    return {
      value,
      isCounted: counted > 0,
      raised,
      columns: writes.flatMap(({ column = [] }) => column),
      history: writes.flatMap(({ history }) => history),
      definition: isDefined ? definition : undefined,
    }
  }

  /** Whether the change of one slot may have to be refused because of the others. */
  isTight(): boolean {
    if (this.row.definition.slots === 1 || this.slot === undefined) return false
    const sums = [this.value, ...(this.periodTotals ?? []).map(({ value }) => value)]
    return sums.some((sum) => Math.abs(sum) > ROOMY_SUM)
  }
}

/** Maximum sum of the absolute values of additions that are made without reading the totals that they change. */
export const SMALL_SUM = 2 ** 42

/**
 * Up to this sum, one slot can be changed without a lock on all: 1 024 others, each with small additions at the same
 * time, can't make the sum leave the safe range.
 */
const ROOMY_SUM = 2 ** 52

/** Whether it changes or deletes the definition of a counter. */
export function isForDefinition(operation: { kind: string }): boolean {
  return operation.kind === 'define' || operation.kind === 'delete'
}
