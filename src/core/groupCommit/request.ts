import type { CounterOperation } from '../../rules/counter.ts'
import type { Claim } from '../../rules/idempotency.ts'
import type { CounterRow, Row, Rows, SequenceGroupRow } from '../../rules/rows.ts'
import type { OperationResult } from '../operations.ts'
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

/** An operation whose row is still to be looked up, as in `Rows`. */
export interface NamedOperation {
  readonly kind: RowOperation['kind']
  readonly rows: Rows<unknown, Row>
  readonly name: unknown
  readonly operation: CounterOperation | SequenceOperation
}

export function onCounter<Name>(
  rows: Rows<Name, CounterRow>,
  name: Name,
  operation: CounterOperation,
): NamedOperation {
  return { kind: 'counter', rows, name, operation }
}

export function onSequenceGroup<Name>(
  rows: Rows<Name, SequenceGroupRow>,
  name: Name,
  operation: SequenceOperation,
): NamedOperation {
  return { kind: 'sequenceGroup', rows, name, operation }
}

/** The rows of a request, if all are cached. */
export function cachedRows({ operations }: Request): RowOperation[] | undefined {
  const cached: RowOperation[] = []
  for (const named of operations) {
    const row = named.rows.cached(named.name)
    if (!row) return undefined
    cached.push(onRow(named, row))
  }
  return cached
}

/**
 * The rows of a request: from the cache, or else from the database, where missing ones may be created.
 *
 * @throws {MissingRow} if a row doesn't exist and must not be created
 */
export function loadRows({ operations, missingRows }: Request, now: () => Date): Promise<RowOperation[]> {
  return Promise.all(
    operations.map(async (named) => {
      const { rows, name } = named
      const load = () => (missingRows === 'fail' ? rows.load(name) : rows.loadOrCreate(name, now()))
      const row = rows.cached(name) ?? (await load())
      if (!row) throw new MissingRow()
      return onRow(named, row)
    }),
  )
}

function onRow({ kind, operation }: NamedOperation, row: Row): RowOperation {
  // `onCounter` and `onSequenceGroup` took rows and an operation of one kind.
  return { kind, row, operation } as RowOperation
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
