import type { NthError } from '../errors.ts'
import type { SequenceGroupRow } from '../rows.ts'
import { applyToSequence } from '../sequences/apply.ts'
import {
  type NumberState,
  numberState,
  type SequenceGroupFound,
  type SequenceOperation,
  type SequenceResult,
} from '../sequences/state.ts'
import { periodKeyOf } from '../time/periodKey.ts'
import type { Precautions } from './precautions.ts'
import type { Request } from './request.ts'

/** The operations of one flush on one sequence group. */
export class SequenceRun {
  readonly row: SequenceGroupRow
  /** Key of its current period. */
  readonly periodKey: number
  /**
   * How far its last number advances if all operations on it issue numbers, and none reaches the end. They may then be
   * sent as one statement. Undefined: the locked path.
   */
  advance: number | undefined
  operations = 0
  withRevision = false
  /** Number of reservations to make. */
  reservations = 0
  /** Tokens of the reservations to confirm or release. */
  readonly tokens: string[] = []

  isGone = false
  #found: SequenceGroupFound = EMPTY_POSITION
  #state: NumberState

  constructor(row: SequenceGroupRow, { lockedPath }: Precautions, at: Date) {
    const { restartEvery, timeZone } = row.definition
    this.row = row
    this.periodKey = periodKeyOf(restartEvery, timeZone, at)
    this.advance = lockedPath.has(row.key) ? undefined : 0
    this.#state = numberState(this, EMPTY_POSITION)
  }

  include(operation: SequenceOperation, { claim, withRevision }: Request): void {
    const advance =
      operation.kind === 'next' && !claim && this.advance !== undefined
        ? this.advance + operation.count * this.row.definition.step
        : undefined
    this.advance = Number.isSafeInteger(advance) ? advance : undefined
    this.operations += 1
    if (withRevision) this.withRevision = true
    if (operation.kind === 'reserve') this.reservations += 1
    if (operation.kind === 'confirm' || operation.kind === 'release') this.tokens.push(operation.token)
  }

  takeLockedPath(): void {
    this.advance = undefined
  }

  /** Sets its state as found; undefined: it doesn't exist, or could not be advanced. */
  begin(found: SequenceGroupFound | undefined): void {
    this.isGone = found === undefined
    if (!found) return
    this.#found = found
    this.#state = numberState(this, found)
  }

  apply(operation: SequenceOperation, at: Date): SequenceResult | NthError {
    return applyToSequence(this.#state, operation, at)
  }

  /** Whether the statement that advanced it had the effect of its operations. */
  isAsSent(): boolean {
    const { isAdvanced, last } = this.#found
    return !isAdvanced || this.#state.last === (last ?? 0) + (this.advance ?? 0)
  }

  /** What to write; undefined: nothing, or the statement that advanced it has written it. */
  write(): NumberState | undefined {
    const { isMoved, closed } = this.#state
    return !this.#found.isAdvanced && (isMoved || closed.size > 0) ? this.#state : undefined
  }
}

/** The position of a sequence group in a period in which it has issued nothing. */
export const EMPTY_POSITION: SequenceGroupFound = {
  isAdvanced: false,
  last: null,
  next: null,
  generation: 0,
  now: 0,
  free: [],
  reservations: [],
  revision: undefined,
}
