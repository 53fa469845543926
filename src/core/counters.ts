import type { Operation, OperationResult, PeriodValues } from './applyOperation.ts'
import type { BoundsChange } from './bounds.ts'
import type { Period } from './calendar.ts'
import type { Request } from './calls.ts'
import type { Definition, PeriodChoice, Retention } from './definition.ts'
import { gather } from './gather.ts'
import type { GroupCommit } from './groupCommit.ts'
import {
  type HistoryCost,
  type HistoryRange,
  type HistoryRow,
  type HistoryStretch,
  openHistory,
  type Total,
} from './history.ts'
import type { Claim } from './idempotency.ts'
import type { LeaderboardEntry, LeaderboardPage, PageByName } from './listing.ts'
import { joinNames } from './names.ts'
import { type ResetSummary, resetAll } from './resetting.ts'
import type { Row, Rows } from './writer.ts'

export interface CounterKey {
  namespace: string
  name: string
}

export interface CounterState extends CounterKey {
  value: number
  /** Undefined: never written or defined, so that it would be as its namespace says. */
  definition: Definition | undefined
  /** When it was first written or defined; null: never. */
  createdAt: Date | null
  /** When its value was last changed; null: never. */
  updatedAt: Date | null
  /** Of two states the newer has the higher one. */
  revision: number
}

export interface CounterChange {
  key: CounterKey
  /** The number that this very call produced. */
  value: number
  previousValue: number
  /** What was added; null for a reset or a deletion, which set. */
  appliedDelta: number | null
  at: Date
  /** Whether an earlier call with the same idempotency key did it. */
  isReplayed: boolean
  isDeletion: boolean
  /** What was added in the running periods that are kept, this call included; undefined: it wasn't asked. */
  valuesIn: PeriodValues | undefined
  /** What the counter is since then; undefined: it is deleted, or was changed by an earlier call. */
  definition: Definition | undefined
  /** That of the counter since then; undefined: it wasn't asked, or an earlier call did it. */
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

/** What of a counter's definition is to change; undefined: stays as it is; null: back to the default. */
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

/** Where counters are kept. */
export interface CounterStore<R extends Row> {
  rows: Rows<CounterKey, R>
  /** Counters, also those that were never written or defined, in any order, by one statement. */
  read(keys: readonly CounterKey[]): Promise<CounterState[]>
  list(namespace: string, page: PageByName): Promise<CounterState[]>
  /** At most a second behind; what this process has changed is in it. */
  listLeaderboard(namespace: string, page: LeaderboardPage): Promise<LeaderboardEntry[]>
  /** What was added in the periods that begin in some stretches of time, by one statement. */
  readHistory(stretches: readonly HistoryStretch[]): Promise<HistoryRow[]>
}

export interface Counters {
  /** @throws {NthError} LIMIT_REACHED, OUT_OF_RANGE, UNAVAILABLE, OUTCOME_UNKNOWN */
  incrementBy(key: CounterKey, delta: number, options?: CallOptions): Promise<CounterChange>
  /**
   * Does up to 1 000 additions, all of them or none; the same counter may be there several times.
   *
   * @throws {NthError} LIMIT_REACHED or OUT_OF_RANGE with the `index` of the addition that is refused;
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
   * Resets every counter of a namespace whose name begins with `prefix`, some hundred at a time: each once, and
   * not all at one instant.
   *
   * One that can't be set doesn't keep the others from it.
   *
   * @throws {NthError} UNAVAILABLE, OUTCOME_UNKNOWN; its message says how many were reset
   */
  resetAll(namespace: string, prefix: string, to: number): Promise<ResetSummary>
  /**
   * Changes what a counter is; its value stays. What it has counted in the running periods goes over to those of
   * another time zone.
   *
   * @throws {NthError} LIMIT_REACHED if the value is outside of the bounds; BAD_USER_INPUT if they leave no value,
   *   or there are to be slots, too; UNAVAILABLE, OUTCOME_UNKNOWN
   */
  define(
    key: CounterKey,
    change: CounterDefinitionChange,
    options?: Pick<CallOptions, 'withRevision'>,
  ): Promise<CounterChange>
  /**
   * Forgets a counter: what counts after it counts in a new one, from 0.
   *
   * @throws {NthError} UNAVAILABLE, OUTCOME_UNKNOWN
   */
  delete(key: CounterKey, options?: Pick<CallOptions, 'withRevision'>): Promise<CounterChange>
  /** Reads one; a name never written reads 0. All reads of the same turn of the event loop share one statement. */
  read(key: CounterKey): Promise<CounterState>
  /** Reads many in the order asked, by the same statement. */
  readMany(keys: readonly CounterKey[]): Promise<CounterState[]>
  list(namespace: string, page: PageByName): Promise<CounterState[]>
  listLeaderboard(namespace: string, page: LeaderboardPage): Promise<LeaderboardEntry[]>
  /**
   * What was added to a counter in each period of a stretch of time, oldest first. All that is asked for in one
   * turn of the event loop shares one statement.
   *
   * @returns null where neither the period nor a finer one is kept
   * @throws {NthError} BAD_USER_INPUT for a stretch that is too long or too far away
   */
  history(
    counter: Known,
    period: Period,
    range: HistoryRange,
    /** Told what it takes before it is read; may refuse that by an error. */
    mayCost?: (cost: HistoryCost) => void,
  ): Promise<Total[] | null>
  /** What was added in the running period; null: neither it nor a finer one is kept. */
  valueIn(counter: Known, period: Period, mayCost?: (cost: HistoryCost) => void): Promise<number | null>
}

/** A counter, and what it is. */
export interface Known extends CounterKey {
  retention: Retention
  slots: number
}

/** The most additions that one call makes. */
export const MAX_CHANGES = 1000

export interface CountersOptions<R extends Row> {
  store: CounterStore<R>
  groupCommit: GroupCommit<R>
  /** What is kept of the counters of a namespace, if nothing else is said. */
  retentionIn: (namespace: string) => Promise<Retention>
  now: () => Date
  /** Until when a call may take that comes now, on the clock of `performance.now()`. */
  deadline: () => number
}

export function openCounters<R extends Row>({
  store,
  groupCommit,
  retentionIn,
  now,
  deadline,
}: CountersOptions<R>): Counters {
  return {
    ...gather(keyText, store.read),
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

    incrementMany(namespace, changes, { claim, wantsPeriodValues = false, withRevision } = {}) {
      const keys = changes.map(({ name }) => ({ namespace, name }))
      const operations = changes.map(({ delta }): Operation => ({ kind: 'add', delta }))
      return changeAll(keys, { operations, mode: 'all', claim, wantsPeriodValues, withRevision })
    },

    resetAll: (namespace, prefix, to) => resetAll({ store, groupCommit }, { namespace, prefix, to }),
  }

  async function change(
    key: CounterKey,
    operation: Operation,
    {
      claim,
      wantsPeriodValues = false,
      withRevision,
      deadline,
    }: CallOptions & Pick<Request, 'deadline'> = {},
  ): Promise<CounterChange> {
    const request: Request = {
      operations: [operation],
      mode: 'one',
      claim,
      wantsPeriodValues,
      withRevision,
      deadline,
    }
    const { answers, at, isReplayed } = await groupCommit.change(store.rows, [key], request)
    return changeOf(key, answers[0], at, isReplayed)
  }

  async function changeAll(keys: readonly CounterKey[], request: Request): Promise<CounterChange[]> {
    const { answers, at, isReplayed } = await groupCommit.change(store.rows, keys, request)
    return keys.map((key, index) => changeOf(key, answers[index], at, isReplayed))
  }
}

function changeOf(
  key: CounterKey,
  result: OperationResult | undefined,
  at: Date,
  isReplayed: boolean,
): CounterChange {
  if (!result || 'kind' in result) throw new Error('An operation without an answer')
  const { value, previousValue, appliedDelta, valuesIn, definition, revision } = result
  // Each part by itself: copies by `...` are slow where every call makes one.
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

/** A key as one text. */
export function keyText({ namespace, name }: CounterKey): string {
  return joinNames(namespace, name)
}

/** A counter that was never written or defined. */
export function unwritten({ namespace, name }: CounterKey, revision: number): CounterState {
  return { namespace, name, value: 0, definition: undefined, createdAt: null, updatedAt: null, revision }
}
