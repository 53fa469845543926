import type { GroupCommit } from '../../commit/groupCommit.ts'
import type { CounterStore } from '../../repository/counters.ts'
import { openHistory } from '../../repository/history.ts'
import type { CounterOperation, CounterResult } from '../../rules/counter.ts'
import { NthError } from '../../rules/errors.ts'
import { batchReads } from '../eventLoop/batchReads.ts'
import { type Applied, onCounter, type Request } from '../groupCommit/request.ts'
import type { OperationResult } from '../operations.ts'
import type { DefinitionChange, Retention } from './definition.ts'
import { type CounterKey, keyText } from './state.ts'

export interface CounterChange extends CounterResult {
  key: CounterKey
  at: Date
  /** Whether an earlier call with the same idempotency key made the change. */
  isReplayed: boolean
  isDeletion?: true
}

/** Options of a call. With a claim, a repeat returns the first result, or IDEMPOTENCY_KEY_REUSED if its arguments differ. */
export type CallOptions = Pick<Request, 'claim' | 'wantsPeriodValues' | 'withRevision'>

export type CounterDelta = { name: string; delta: number }

/** Maximum additions of one call. */
export const MAX_CHANGES = 1000

/** What operations need. */
export interface Means<Store> {
  store: Store
  groupCommit: GroupCommit
  /** Default retention of a namespace. */
  retentionIn: (namespace: string) => Promise<Retention>
  now: () => Date
  /** Deadline of a call that arrives now, on the clock of `performance.now()`, in milliseconds. */
  deadline: () => number
}

export type Counters = ReturnType<typeof openCounters>

export function openCounters({ store, groupCommit, retentionIn, now, deadline }: Means<CounterStore>) {
  return {
    /** `read`, `readMany`: a name never written has the value 0. All reads of an event loop tick share one statement. */
    ...batchReads(keyText, store.read),
    ...openHistory(store.readHistory, now),
    list: store.list,
    listLeaderboard: store.listLeaderboard,

    /** @throws {NthError} LIMIT_REACHED, OUT_OF_RANGE, UNAVAILABLE, OUTCOME_UNKNOWN */
    incrementBy: (key: CounterKey, delta: number, options?: CallOptions) =>
      change(key, { kind: 'add', delta }, options),

    /**
     * Applies up to 1 000 additions: all or none. The same counter may occur several times.
     *
     * @throws {NthError} LIMIT_REACHED or OUT_OF_RANGE with the `index` of the refused addition;
     *   UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async incrementMany(namespace: string, changes: readonly CounterDelta[], options?: CallOptions) {
      const operations = changes.map(({ name, delta }) =>
        onCounter(store.rows, { namespace, name }, { kind: 'add', delta }),
      )
      const applied = await groupCommit.change({ operations, mode: 'all', ...options })
      return changes.map(({ name }, index) => changeOf({ namespace, name }, applied.results[index], applied))
    },

    /** @throws {NthError} LIMIT_REACHED, UNAVAILABLE, OUTCOME_UNKNOWN */
    reset: (key: CounterKey, to: number, options?: CallOptions) => change(key, { kind: 'set', to }, options),

    /**
     * Resets every counter of a namespace whose name starts with `prefix`, in batches of several hundred: each once, but
     * not all at one instant. A counter that can't be reset doesn't stop the others.
     *
     * @throws {NthError} UNAVAILABLE, OUTCOME_UNKNOWN; its message says how many were reset
     */
    resetAll: (namespace: string, prefix: string, to: number) =>
      resetAll(store, groupCommit, { namespace, prefix, to }),

    /**
     * Changes a counter's definition, not its value. If the time zone changes, the totals of the current periods carry
     * over.
     *
     * @throws {NthError} LIMIT_REACHED if the value is outside the bounds; BAD_USER_INPUT if they exclude every value, or
     *   are combined with slots; UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async define(key: CounterKey, asked: DefinitionChange, { withRevision }: RevisionOption = {}) {
      const { timeZone, periods } = asked
      const options = { withRevision, deadline: deadline() }
      const retention = timeZone === null || periods === null ? await retentionIn(key.namespace) : undefined
      const kept = { timeZone: timeZone ?? retention?.timeZone, periods: periods ?? retention?.periods }
      return change(key, { kind: 'define', change: { ...asked, ...kept } }, options)
    },

    /**
     * Deletes a counter. Later changes count in a new one, from 0.
     *
     * @throws {NthError} UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async delete(key: CounterKey, options?: RevisionOption): Promise<CounterChange> {
      return { ...(await change(key, { kind: 'delete' }, options)), isDeletion: true }
    },
  }

  async function change(
    key: CounterKey,
    operation: CounterOperation,
    { claim, wantsPeriodValues, withRevision, deadline }: RequestOptions = {},
  ) {
    const operations = [onCounter(store.rows, key, operation)]
    // No spread: it is slow in code that every call runs.
    const request: Request = { operations, mode: 'one', claim, wantsPeriodValues, withRevision, deadline }
    const applied = await groupCommit.change(request)
    return changeOf(key, applied.results[0], applied)
  }
}

type RevisionOption = Pick<Request, 'withRevision'>
type RequestOptions = CallOptions & Pick<Request, 'deadline'>

function changeOf(key: CounterKey, result: OperationResult | undefined, applied: Applied): CounterChange {
  if (!result || 'kind' in result) throw new Error('No result for an operation')
  const { value, previousValue, appliedDelta, valuesIn, definition, revision } = result
  const { at, isReplayed } = applied
  return { key, value, previousValue, appliedDelta, at, isReplayed, valuesIn, definition, revision }
}

export interface ResetSummary {
  resetCount: number
  /** Counters left unchanged, as the value is outside their bounds. */
  refusedCount: number
}

/** Maximum counters of one transaction. */
const BATCH = 500

/** Resets every counter of a namespace whose name starts with a prefix, in batches: see `Counters`. */
async function resetAll(
  { list, rows }: CounterStore,
  groupCommit: GroupCommit,
  { namespace, prefix, to }: { namespace: string; prefix: string; to: number },
): Promise<ResetSummary> {
  const summary: ResetSummary = { resetCount: 0, refusedCount: 0 }
  let failure: Error | undefined
  let after: string | undefined
  do {
    const page = { prefix, after, limit: BATCH, fromEnd: false }
    const batch = await list(namespace, page).catch((error) => unfinished(summary, error))
    after = batch.length === BATCH ? batch.at(-1)?.name : undefined
    const operations = batch.map((key) => onCounter(rows, key, { kind: 'set', to }))
    const results = await groupCommit.changeEach(operations).catch((error) => unfinished(summary, error))
    const errors = results.filter((result) => result instanceof Error)
    const failures = errors.filter((error) => !(error instanceof NthError && error.code === 'LIMIT_REACHED'))
    failure ??= failures[0]
    summary.refusedCount += errors.length - failures.length
    // Without a result the counter was deleted in the meantime.
    summary.resetCount += results.filter((result) => result !== undefined).length - errors.length
    // If a whole batch fails, the cause is not in its counters.
    if (failures.length === batch.length) break
  } while (after !== undefined)
  return failure ? unfinished(summary, failure) : summary
}

/** Adds the number of counters reset so far to an error. */
function unfinished({ resetCount }: ResetSummary, error: unknown): never {
  if (!(error instanceof NthError)) throw error
  const message = `${error.message} ${resetCount} counters were reset.`
  throw new NthError(error.code, message, error.details, { cause: error })
}
