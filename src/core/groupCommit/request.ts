import type { CounterOperation } from '../counters/apply.ts'
import type { Claim } from '../idempotency.ts'
import type { OperationResult } from '../operations.ts'
import type { CounterRow, Row, Rows, SequenceGroupRow } from '../rows.ts'
import type { SequenceOperation } from '../sequences/state.ts'

/** What a caller asks for. */
export interface Request {
  readonly operations: readonly NamedOperation[]
  /** One operation; or several on counters, of which all are applied or none. */
  readonly mode: 'one' | 'all'
  /** What happens to rows that don't exist. Default: `create`. `fail`: the call fails with `MissingRow`. */
  readonly missingRows?: 'create' | 'fail'
  readonly claim?: Claim | undefined
  /** Whether it returns the totals of the current periods. */
  readonly wantsPeriodValues?: boolean | undefined
  /** Whether it returns the revision after each operation. */
  readonly withRevision?: boolean | undefined
  /** Its deadline on the clock of `performance.now()`, in milliseconds; undefined: the default timeout from now. */
  readonly deadline?: number | undefined
}

export type RowOperation =
  | { readonly kind: 'counter'; readonly row: CounterRow; readonly operation: CounterOperation }
  | { readonly kind: 'sequenceGroup'; readonly row: SequenceGroupRow; readonly operation: SequenceOperation }

/** The row does not exist, and must not be created. */
export class MissingRow extends Error {}

/** An operation whose row is still to be looked up, as in `Rows`. A class, as a closure for each method takes memory. */
class Named<Name, R extends Row, Operation> {
  readonly #rows: Rows<Name, R>
  readonly #name: Name
  readonly #operation: Operation
  readonly #on: (row: R, operation: Operation) => RowOperation

  constructor(
    rows: Rows<Name, R>,
    name: Name,
    operation: Operation,
    on: (row: R, operation: Operation) => RowOperation,
  ) {
    this.#rows = rows
    this.#name = name
    this.#operation = operation
    this.#on = on
  }

  cached(): RowOperation | undefined {
    const row = this.#rows.cached(this.#name)
    return row && this.#on(row, this.#operation)
  }

  async load(): Promise<RowOperation | undefined> {
    const row = await this.#rows.load(this.#name)
    return row && this.#on(row, this.#operation)
  }

  async loadOrCreate(at: Date): Promise<RowOperation> {
    return this.#on(await this.#rows.loadOrCreate(this.#name, at), this.#operation)
  }

  forget(): void {
    this.#rows.forget(this.#name)
  }

  describe(): string {
    return JSON.stringify(this.#name)
  }
}

export type NamedOperation = Pick<Named<never, never, never>, keyof Named<never, never, never>>

export function onCounter<Name>(
  rows: Rows<Name, CounterRow>,
  name: Name,
  operation: CounterOperation,
): NamedOperation {
  return new Named(rows, name, operation, counterOperation)
}

export function onSequenceGroup<Name>(
  rows: Rows<Name, SequenceGroupRow>,
  name: Name,
  operation: SequenceOperation,
): NamedOperation {
  return new Named(rows, name, operation, sequenceOperation)
}

function counterOperation(row: CounterRow, operation: CounterOperation): RowOperation {
  return { kind: 'counter', row, operation }
}

function sequenceOperation(row: SequenceGroupRow, operation: SequenceOperation): RowOperation {
  return { kind: 'sequenceGroup', row, operation }
}

/**
 * Looks up the rows of a request: from the cache, or else from the database, where missing ones may be created. Synchronous
 * if all are cached.
 *
 * @throws {MissingRow} if a row doesn't exist and must not be created
 */
export function resolveRows(
  { operations, missingRows }: Request,
  now: () => Date,
): RowOperation[] | Promise<RowOperation[]> {
  const cached: RowOperation[] = []
  for (const named of operations) {
    const operation = named.cached()
    if (operation) cached.push(operation)
  }
  if (cached.length === operations.length) return cached
  return Promise.all(operations.map(resolve))

  async function resolve(named: NamedOperation): Promise<RowOperation> {
    const operation =
      named.cached() ?? (await (missingRows === 'fail' ? named.load() : named.loadOrCreate(now())))
    if (!operation) throw new MissingRow()
    return operation
  }
}

/** The result of a call, once its operations are durable. */
export interface Applied {
  /** The result of each operation, in order. */
  results: readonly OperationResult[]
  /** The instant of their flush. */
  at: Date
  /** Whether an earlier call with this key applied them. */
  isReplayed: boolean
}
