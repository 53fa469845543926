import { batchReads } from '../eventLoop/batchReads.ts'
import { type Applied, type NamedOperation, onCounter, type Request } from '../groupCommit/call.ts'
import type { GroupCommit } from '../groupCommit/groupCommit.ts'
import type { Claim } from '../idempotency.ts'
import type { OperationResult } from '../operations.ts'
import type { CounterOperation, PeriodValues } from './apply.ts'
import type { BoundsChange } from './bounds.ts'
import type { Definition, PeriodChoice, Retention } from './definition.ts'
import { type Histories, openHistory } from './history.ts'
import type { LeaderboardEntry, LeaderboardPage, PageByName } from './pages.ts'
import { type ResetSummary, resetAll } from './resetAll.ts'
import { type CounterKey, type CounterState, keyText } from './state.ts'
import type { CounterStore } from './store.ts'

export interface CounterChange {
  key: CounterKey
  /** The value that this call produced. */
  value: number
  previousValue: number
  /** The amount added; null unless it is an addition. */
  appliedDelta: number | null
  at: Date
  /** Whether an earlier call with the same idempotency key made the change. */
  isReplayed: boolean
  isDeletion: boolean
  /** Totals of the tracked current periods, including this call; undefined: not requested. */
  valuesIn: PeriodValues | undefined
  /** Definition of the counter afterwards; undefined: it is deleted, or an earlier call changed it. */
  definition: Definition | undefined
  /** Revision of the counter afterwards; undefined: not requested, or an earlier call changed it. */
  revision: number | undefined
}

/** Options of a call. */
export interface CallOptions {
  /** Makes a repeat return the first result, or IDEMPOTENCY_KEY_REUSED if its arguments differ. */
  claim?: Claim | undefined
  /** Whether the change returns the totals of the current periods. */
  wantsPeriodValues?: boolean | undefined
  /** Whether the change returns the counter's revision. */
  withRevision?: boolean | undefined
}

/** A change of a counter's definition. Undefined: unchanged; null: reset to the default. */
export interface CounterDefinitionChange extends BoundsChange {
  slots?: number | null | undefined
  timeZone?: string | null | undefined
  periods?: readonly PeriodChoice[] | null | undefined
}

/** An addition to a counter. */
export interface CounterDelta {
  name: string
  delta: number
}

export interface Counters extends Histories {
  /** @throws {NthError} LIMIT_REACHED, OUT_OF_RANGE, UNAVAILABLE, OUTCOME_UNKNOWN */
  incrementBy(key: CounterKey, delta: number, options?: CallOptions): Promise<CounterChange>
  /**
   * Applies up to 1 000 additions: all or none. The same counter may occur several times.
   *
   * @throws {NthError} LIMIT_REACHED or OUT_OF_RANGE with the `index` of the refused addition;
   *   UNAVAILABLE, OUTCOME_UNKNOWN
   */
  incrementMany(
    namespace: string,
    changes: readonly CounterDelta[],
    options?: CallOptions,
  ): Promise<CounterChange[]>
  /** @throws {NthError} LIMIT_REACHED, UNAVAILABLE, OUTCOME_UNKNOWN */
  reset(key: CounterKey, to: number, options?: CallOptions): Promise<CounterChange>
  /**
   * Resets every counter of a namespace whose name starts with `prefix`, in batches of several hundred: each once, but
   * not all at one instant.
   *
   * A counter that can't be reset doesn't stop the others.
   *
   * @throws {NthError} UNAVAILABLE, OUTCOME_UNKNOWN; its message says how many were reset
   */
  resetAll(namespace: string, prefix: string, to: number): Promise<ResetSummary>
  /**
   * Changes a counter's definition, not its value. If the time zone changes, the totals of the current periods carry
   * over.
   *
   * @throws {NthError} LIMIT_REACHED if the value is outside the bounds; BAD_USER_INPUT if they exclude every value, or
   *   are combined with slots; UNAVAILABLE, OUTCOME_UNKNOWN
   */
  define(
    key: CounterKey,
    change: CounterDefinitionChange,
    options?: Pick<CallOptions, 'withRevision'>,
  ): Promise<CounterChange>
  /**
   * Deletes a counter. Later changes count in a new one, from 0.
   *
   * @throws {NthError} UNAVAILABLE, OUTCOME_UNKNOWN
   */
  delete(key: CounterKey, options?: Pick<CallOptions, 'withRevision'>): Promise<CounterChange>
  /** Reads one; a name never written has the value 0. All reads of an event loop tick share one statement. */
  read(key: CounterKey): Promise<CounterState>
  /** Reads many, with the same statement. Results are in the order of the keys. */
  readMany(keys: readonly CounterKey[]): Promise<CounterState[]>
  list(namespace: string, page: PageByName): Promise<CounterState[]>
  listLeaderboard(namespace: string, page: LeaderboardPage): Promise<LeaderboardEntry[]>
}

/** Maximum additions of one call. */
export const MAX_CHANGES = 1000

export interface CountersOptions {
  store: CounterStore
  groupCommit: GroupCommit
  /** Default retention of a namespace's counters. */
  retentionIn: (namespace: string) => Promise<Retention>
  now: () => Date
  /** Deadline of a call that arrives now, on the clock of `performance.now()`, in milliseconds. */
  deadline: () => number
}

export function openCounters({ store, groupCommit, retentionIn, now, deadline }: CountersOptions): Counters {
  return {
    ...batchReads(keyText, store.read),
    ...openHistory(store.readHistory, now),
    list: store.list,
    listLeaderboard: store.listLeaderboard,
    incrementBy: (key, delta, options) => change(key, { kind: 'add', delta }, options),
    reset: (key, to, options) => change(key, { kind: 'set', to }, options),
    delete: async (key, options) => ({
      ...(await change(key, { kind: 'delete' }, options)),
      isDeletion: true,
    }),

    async define(key, asked, { withRevision } = {}) {
      const { timeZone, periods } = asked
      const options = { withRevision, deadline: deadline() }
      const retention = timeZone === null || periods === null ? await retentionIn(key.namespace) : undefined
      const kept = { timeZone: timeZone ?? retention?.timeZone, periods: periods ?? retention?.periods }
      return change(key, { kind: 'define', change: { ...asked, ...kept } }, options)
    },

    async incrementMany(namespace, changes, options) {
      const operations = changes.map(({ name, delta }) =>
        onCounter(store.rows, { namespace, name }, { kind: 'add', delta }),
      )
      const applied = await apply(operations, 'all', options)
      return changes.map(({ name }, index) => changeOf({ namespace, name }, applied.results[index], applied))
    },

    resetAll: (namespace, prefix, to) => resetAll({ store, groupCommit }, { namespace, prefix, to }),
  }

  async function change(
    key: CounterKey,
    operation: CounterOperation,
    options?: RequestOptions,
  ): Promise<CounterChange> {
    const applied = await apply([onCounter(store.rows, key, operation)], 'one', options)
    return changeOf(key, applied.results[0], applied)
  }

  function apply(
    operations: readonly NamedOperation[],
    mode: Request['mode'],
    options: RequestOptions = {},
  ): Promise<Applied> {
    const { claim, wantsPeriodValues, withRevision, deadline } = options
    // No spread: it is slow in code that every call runs.
    return groupCommit.change({
      operations,
      mode,
      missingRows: 'create',
      claim,
      wantsPeriodValues,
      withRevision,
      deadline,
    })
  }
}

type RequestOptions = CallOptions & Pick<Request, 'deadline'>

function changeOf(
  key: CounterKey,
  result: OperationResult | undefined,
  { at, isReplayed }: Applied,
): CounterChange {
  if (!result || 'kind' in result) throw new Error('No result for an operation')
  const { value, previousValue, appliedDelta, valuesIn, definition, revision } = result
  return {
    key,
    value,
    previousValue,
    appliedDelta,
    at,
    isReplayed,
    isDeletion: false,
    valuesIn,
    definition,
    revision,
  }
}
