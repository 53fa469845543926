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

/** An operation whose row is still to be looked up, as in `Rows`. */
export type NamedOperation = ReturnType<typeof named>

export type RowOperation =
  | { readonly kind: 'counter'; readonly row: CounterRow; readonly operation: CounterOperation }
  | { readonly kind: 'sequenceGroup'; readonly row: SequenceGroupRow; readonly operation: SequenceOperation }

/** The row does not exist, and must not be created. */
export class MissingRow extends Error {}

export function onCounter<Name>(rows: Rows<Name, CounterRow>, name: Name, operation: CounterOperation) {
  return named(rows, name, (row) => ({ kind: 'counter', row, operation }))
}

export function onSequenceGroup<Name>(
  rows: Rows<Name, SequenceGroupRow>,
  name: Name,
  operation: SequenceOperation,
) {
  return named(rows, name, (row) => ({ kind: 'sequenceGroup', row, operation }))
}

function named<Name, R extends Row>(rows: Rows<Name, R>, name: Name, on: (row: R) => RowOperation) {
  return {
    cached() {
      const row = rows.cached(name)
      return row && on(row)
    },
    async load() {
      const row = await rows.load(name)
      return row && on(row)
    },
    loadOrCreate: async (at: Date) => on(await rows.loadOrCreate(name, at)),
    forget: () => rows.forget(name),
    describe: () => JSON.stringify(name),
  }
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
