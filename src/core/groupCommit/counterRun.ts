import { type CounterOperation, coalesce, RowState, raiseBy, type ValueOperation } from '../counters/apply.ts'
import type { Definition } from '../counters/definition.ts'
import type { CounterRow } from '../rows.ts'
import type { Precautions } from './precautions.ts'
import type { Request } from './request.ts'

/** A counter as a flush finds it. */
export interface CounterFound {
  /** The value before. */
  value: number
  /** The totals of its current periods before, where wanted, in the order of its definition. */
  periodTotals: readonly number[] | undefined
  /** The revision before, where wanted; of some also where not. */
  revision: number | undefined
}

/** The new state of a locked counter. `definition`: the new one, if changed. */
export type CounterWrite =
  | 'deleted'
  | { value: number; isCounted: boolean; raised: number; definition: Definition | undefined }

/** The operations of one flush on one counter. */
export class CounterRun extends RowState {
  readonly row: CounterRow
  /**
   * All operations on it as one, sent as one statement. Undefined: the locked path. The row is read under lock, its
   * operations are applied one by one, and then it is written.
   */
  coalesced: ValueOperation | undefined
  /** How much its coalesced operations raise the revision. */
  raise = 0
  withRevision = false
  /** Whether its definition may be changed, or it may be deleted. */
  isForDefinition = false
  /** Whether the totals of its current periods are read, for a caller who wants them or to check their range. */
  wantsPeriodValues: boolean
  /** The slot that is changed; undefined: all of them, under lock. */
  slot: number | undefined

  isGone = false
  /** The value before all operations. */
  before = 0
  /** Whether an operation on it was refused, or undone with others of its call. */
  isRefused = false

  constructor(row: CounterRow, precautions: Precautions) {
    const { slots, bounds } = row.definition
    super(row.definition)
    this.row = row
    const isLocked = precautions.lockedPath.has(row.key)
    const readsTotals = precautions.withPeriodTotals.has(row.key)
    this.coalesced = bounds || isLocked ? undefined : NO_CHANGE
    // One slot alone doesn't show whether the sum has room for more.
    this.wantsPeriodValues = slots > 1 || readsTotals
    this.slot = slots === 1 ? 0 : precautions.slotOf(row)
    if (slots > 1 && (isLocked || readsTotals)) this.#takeAllSlots()
  }

  include(operation: CounterOperation, request: Request): void {
    const { claim, wantsPeriodValues, withRevision } = request
    // A repeat may want what the first call didn't. A large delta may overflow a period.
    if (wantsPeriodValues || claim || !isSmall(operation)) this.wantsPeriodValues = true
    if (withRevision) this.withRevision = true
    if (isForDefinition(operation)) this.isForDefinition = true
    this.raise += raiseBy(operation.kind === 'add' ? operation.delta : null)
    const isDecidedUnderLock = claim || operation.kind === 'define' || operation.kind === 'delete'
    this.coalesced = isDecidedUnderLock ? undefined : this.coalesced && coalesce(this.coalesced, operation)
    const isForOneSlot = operation.kind === 'add' && isSmall(operation)
    if (this.row.definition.slots > 1 && !isForOneSlot) this.#takeAllSlots()
  }

  takeLockedPath(): void {
    this.coalesced = undefined
  }

  #takeAllSlots(): void {
    this.slot = undefined
    this.takeLockedPath()
  }

  /** Sets its state as found; undefined: the row doesn't exist. */
  begin(found: CounterFound | undefined): void {
    this.isGone = found === undefined
    if (!found) return
    const { value, periodTotals, revision } = found
    this.before = value
    this.value = value
    this.revision = revision
    this.periodTotals =
      periodTotals &&
      this.definition.periods.map(({ period }, index) => ({ period, value: periodTotals[index] ?? 0 }))
  }

  /** Whether its coalesced statement had the effect of its operations. */
  isAsSent(): boolean {
    return !this.coalesced || !this.isRefused
  }

  /** What to write; undefined: nothing, or its coalesced statement has written it. */
  write(): CounterWrite | undefined {
    const { value, counted, raised, isDefined, definition } = this
    if (this.coalesced) return undefined
    if (this.isDeleted) return 'deleted'
    if (counted === 0 && !isDefined) return undefined
    return { value, isCounted: counted > 0, raised, definition: isDefined ? definition : undefined }
  }

  /** Whether the change of one slot may have to be refused because of the others. */
  isTight(): boolean {
    if (this.row.definition.slots === 1 || this.slot === undefined) return false
    const sums = [this.value, ...(this.periodTotals ?? []).map(({ value }) => value)]
    return sums.some((sum) => Math.abs(sum) > ROOMY_SUM)
  }
}

const NO_CHANGE: ValueOperation = { kind: 'add', delta: 0 }

/**
 * Up to this sum, one slot can be changed without a lock on all: 1 024 others, each with 10 000 small additions at the
 * same time, can't make the sum leave the safe range.
 */
const ROOMY_SUM = 2 ** 52
const SMALL_DELTA = 2 ** 28

/** More than the small additions of one flush can add up to. */
export const SMALL_SUM = 2 ** 42

/** Whether it changes or deletes the definition of a counter. */
export function isForDefinition(operation: { kind: string }): boolean {
  return operation.kind === 'define' || operation.kind === 'delete'
}

function isSmall(operation: CounterOperation): boolean {
  return operation.kind !== 'add' || Math.abs(operation.delta) <= SMALL_DELTA
}
