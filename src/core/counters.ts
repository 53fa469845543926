import { type Bounds, type BoundsChange, UNBOUNDED } from './bounds.ts'
import type { Request } from './calls.ts'
import type { Dealt, Operation } from './dealing.ts'
import { NthError } from './errors.ts'
import { gather } from './gather.ts'
import type { GroupCommit } from './groupCommit.ts'
import type { Claim } from './idempotency.ts'
import type { Row, Rows } from './lane.ts'
import { joinNames } from './names.ts'

export interface CounterKey {
  namespace: string
  name: string
}

export interface CounterState extends CounterKey {
  value: number
  bounds: Bounds
  /** When it was first written or defined; null: never. */
  createdAt: Date | null
  /** When its value was last changed; null: never. */
  updatedAt: Date | null
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
  /** What the counter's value may be since then. */
  bounds: Bounds
}

/** An addition to a counter. */
export interface CounterDelta {
  name: string
  delta: number
}

/** What a reset of many counters did. */
export interface ResetSummary {
  resetCount: number
  /** Left alone, as the value is outside their bounds. */
  refusedCount: number
}

/** A page of a namespace's counters. */
interface Page {
  /** At most so many, counted from the end if `fromEnd`; then also listed from the end. */
  limit: number
  fromEnd: boolean
}

/** In the order of the names' bytes in UTF-8. */
export interface PageByName extends Page {
  prefix: string
  /** Only names after this one. */
  after?: string | undefined
  /** Only names before this one. */
  before?: string | undefined
}

export interface PageByRank extends Page {
  order: RankOrder
  /** Only what comes after this place. */
  after?: Rank | undefined
  /** Only what comes before this place. */
  before?: Rank | undefined
}

/** Of those with the same value or instant, the order is that of their making, or its reverse. */
export type RankOrder = 'VALUE_DESC' | 'VALUE_ASC' | 'UPDATED_AT_DESC'

/** A place in an order: what counts there (a value, or an instant in milliseconds), and which of the same it is. */
export interface Rank {
  sortedBy: number
  id: number
}

export interface RankedCounter extends CounterState {
  rank: Rank
}

/** Where counters are kept. */
export interface CounterStore<R extends Row> {
  rows: Rows<CounterKey, R>
  /** The counters that were ever written or defined, of those asked for, in any order, by one statement. */
  read(keys: readonly CounterKey[]): Promise<CounterState[]>
  list(namespace: string, page: PageByName): Promise<CounterState[]>
  /** At most a second behind; what this process has changed is in it. */
  listRanked(namespace: string, page: PageByRank): Promise<RankedCounter[]>
}

/** With a claim, a repeat is told what was done at first, or IDEMPOTENCY_KEY_REUSED if it asks something else. */
export interface Counters {
  /** @throws {NthError} LIMIT_REACHED, OUT_OF_RANGE, UNAVAILABLE, OUTCOME_UNKNOWN */
  incrementBy(key: CounterKey, delta: number, claim?: Claim): Promise<CounterChange>
  /**
   * Does up to 1 000 additions, all of them or none; the same counter may be there several times.
   *
   * @throws {NthError} LIMIT_REACHED or OUT_OF_RANGE with the `index` of the addition that is refused;
   *   UNAVAILABLE, OUTCOME_UNKNOWN
   */
  incrementMany(namespace: string, changes: readonly CounterDelta[], claim?: Claim): Promise<CounterChange[]>
  /** @throws {NthError} LIMIT_REACHED, UNAVAILABLE, OUTCOME_UNKNOWN */
  reset(key: CounterKey, to: number, claim?: Claim): Promise<CounterChange>
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
   * Changes a counter's bounds; its value stays.
   *
   * @throws {NthError} LIMIT_REACHED if the value is outside of them; BAD_USER_INPUT if they leave no value;
   *   UNAVAILABLE, OUTCOME_UNKNOWN
   */
  define(key: CounterKey, bounds: BoundsChange): Promise<CounterChange>
  /**
   * Forgets a counter: what counts after it counts in a new one, from 0.
   *
   * @throws {NthError} UNAVAILABLE, OUTCOME_UNKNOWN
   */
  delete(key: CounterKey): Promise<CounterChange>
  /** Reads one; a name never written reads 0. All reads of the same turn of the event loop share one statement. */
  read(key: CounterKey): Promise<CounterState>
  /** Reads many in the order asked, by the same statement. */
  readMany(keys: readonly CounterKey[]): Promise<CounterState[]>
  list(namespace: string, page: PageByName): Promise<CounterState[]>
  listRanked(namespace: string, page: PageByRank): Promise<RankedCounter[]>
}

/** The most additions that one call makes. */
export const MAX_CHANGES = 1000

/** How many counters one transaction of `resetAll` sets. */
const BITE = 500

export function openCounters<R extends Row>(store: CounterStore<R>, groupCommit: GroupCommit<R>): Counters {
  return {
    ...gather(keyText, store.read, unwritten),
    list: store.list,
    listRanked: store.listRanked,
    incrementBy: (key, delta, claim) => change(key, { kind: 'add', delta }, claim),
    reset: (key, to, claim) => change(key, { kind: 'set', to }, claim),
    define: (key, bounds) => change(key, { kind: 'define', bounds }),
    delete: async (key) => ({ ...(await change(key, { kind: 'delete' })), isDeletion: true }),

    incrementMany(namespace, changes, claim) {
      const keys = changes.map(({ name }) => ({ namespace, name }))
      const operations = changes.map(({ delta }): Operation => ({ kind: 'add', delta }))
      return changeAll(keys, { operations, mode: 'all', claim })
    },

    async resetAll(namespace, prefix, to) {
      const summary: ResetSummary = { resetCount: 0, refusedCount: 0 }
      const failures: Error[] = []
      let after: string | undefined
      do {
        const page = { prefix, after, limit: BITE, fromEnd: false }
        const bite = await store.list(namespace, page).catch((error) => unfinished(summary, error))
        after = bite.length === BITE ? bite.at(-1)?.name : undefined
        const before = failures.length
        await resetEach(bite, to, summary, failures)
        // Where none can be set, it is not for them.
        if (failures.length === before + bite.length) break
      } while (after !== undefined)
      const [failure] = failures
      return failure ? unfinished(summary, failure) : summary
    },
  }

  async function change(key: CounterKey, operation: Operation, claim?: Claim): Promise<CounterChange> {
    const request: Request = { operations: [operation], mode: 'one', claim }
    const { answers, at, isReplayed } = await groupCommit.change(store.rows, [key], request)
    return changeOf(key, answers[0], at, isReplayed)
  }

  async function changeAll(keys: readonly CounterKey[], request: Request): Promise<CounterChange[]> {
    const { answers, at, isReplayed } = await groupCommit.change(store.rows, keys, request)
    return keys.map((key, index) => changeOf(key, answers[index], at, isReplayed))
  }

  async function resetEach(
    keys: readonly CounterKey[],
    to: number,
    summary: ResetSummary,
    failures: Error[],
  ): Promise<void> {
    const answers = await groupCommit.changeEach(store.rows, keys, { kind: 'set', to })
    for (const answer of answers) {
      if (answer instanceof NthError && answer.code === 'LIMIT_REACHED') summary.refusedCount += 1
      else if (answer instanceof Error) failures.push(answer)
      // Deleted meanwhile, if there is none.
      else if (answer) summary.resetCount += 1
    }
  }
}

function changeOf(key: CounterKey, dealt: Dealt | undefined, at: Date, isReplayed: boolean): CounterChange {
  if (!dealt) throw new Error('An operation without an answer')
  const { value, previousValue, appliedDelta, bounds = UNBOUNDED } = dealt
  return { key, value, previousValue, appliedDelta, at, isReplayed, isDeletion: false, bounds }
}

/** Has an error say how far it came. */
function unfinished({ resetCount }: ResetSummary, error: unknown): never {
  if (!(error instanceof NthError)) throw error
  const message = `${error.message} ${resetCount} counters were reset.`
  throw new NthError(error.code, message, error.details, { cause: error })
}

/** A key as one text. */
export function keyText({ namespace, name }: CounterKey): string {
  return joinNames(namespace, name)
}

function unwritten({ namespace, name }: CounterKey): CounterState {
  return { namespace, name, value: 0, bounds: UNBOUNDED, createdAt: null, updatedAt: null }
}
