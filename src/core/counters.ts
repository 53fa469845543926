import { gather } from './gather.ts'
import type { GroupCommit } from './groupCommit.ts'
import type { Row, Rows } from './lane.ts'
import { joinNames } from './names.ts'

export interface CounterKey {
  namespace: string
  name: string
}

export interface CounterState extends CounterKey {
  value: number
  /** When it was first written; null: never. */
  createdAt: Date | null
  /** When its value was last changed; null: never. */
  updatedAt: Date | null
}

export interface CounterChange {
  key: CounterKey
  /** The number that this very call produced. */
  value: number
  previousValue: number
  /** What was added; null for a reset, which sets. */
  appliedDelta: number | null
  at: Date
}

/** A page of a namespace's counters, in the order of their names' bytes in UTF-8. */
export interface CounterPage {
  prefix: string
  /** Only names after this one. */
  after?: string | undefined
  /** Only names before this one. */
  before?: string | undefined
  /** At most so many, counted from the end if `fromEnd`; then also listed from the end. */
  limit: number
  fromEnd: boolean
}

/** Where counters are kept. */
export interface CounterStore<R extends Row> {
  rows: Rows<CounterKey, R>
  /** The counters that were ever written, of those asked for, in any order, by one statement. */
  read(keys: readonly CounterKey[]): Promise<CounterState[]>
  list(namespace: string, page: CounterPage): Promise<CounterState[]>
}

export interface Counters {
  /** @throws {NthError} OUT_OF_RANGE, UNAVAILABLE, OUTCOME_UNKNOWN */
  incrementBy(key: CounterKey, delta: number): Promise<CounterChange>
  /** @throws {NthError} UNAVAILABLE, OUTCOME_UNKNOWN */
  reset(key: CounterKey, to: number): Promise<CounterChange>
  /** Reads one; a name never written reads 0. All reads of the same turn of the event loop share one statement. */
  read(key: CounterKey): Promise<CounterState>
  /** Reads many in the order asked, by the same statement. */
  readMany(keys: readonly CounterKey[]): Promise<CounterState[]>
  list(namespace: string, page: CounterPage): Promise<CounterState[]>
}

export function openCounters<R extends Row>(store: CounterStore<R>, groupCommit: GroupCommit<R>): Counters {
  return {
    ...gather(keyText, store.read, unwritten),
    list: store.list,

    async incrementBy(key, delta) {
      const { value, previousValue, at } = await groupCommit.change(store.rows, key, { kind: 'add', delta })
      return { key, value, previousValue, appliedDelta: delta, at }
    },

    async reset(key, to) {
      const { value, previousValue, at } = await groupCommit.change(store.rows, key, { kind: 'set', to })
      return { key, value, previousValue, appliedDelta: null, at }
    },
  }
}

/** A key as one text. */
export function keyText({ namespace, name }: CounterKey): string {
  return joinNames(namespace, name)
}

function unwritten({ namespace, name }: CounterKey): CounterState {
  return { namespace, name, value: 0, createdAt: null, updatedAt: null }
}
