import { batchReads } from '../eventLoop/batchReads.ts'
import { DEFAULT_RETENTION, type PeriodChoice, periodsOf, type Retention } from './definition.ts'
import type { PageByName } from './pages.ts'

export interface NamespaceState {
  name: string
  /** Default time zone and periods of what is created in it. */
  retention: Retention
}

/** A change of a namespace's defaults. Undefined: unchanged; null: reset to the default. */
export interface NamespaceChange {
  timeZone?: string | null | undefined
  periods?: readonly PeriodChoice[] | null | undefined
}

/** Storage of namespaces. */
export interface NamespaceStore {
  /** Reads those that exist, in any order. */
  read(names: readonly { name: string }[]): Promise<NamespaceState[]>
  /** Lists those with a counter or a sequence. */
  list(page: PageByName): Promise<NamespaceState[]>
  /** Changes the defaults, and creates the namespace if it doesn't exist. Safe to retry. */
  define(name: string, change: (present: Retention) => Retention): Promise<NamespaceState>
}

export interface Namespaces {
  read(name: string): Promise<NamespaceState>
  readMany(names: readonly string[]): Promise<NamespaceState[]>
  /** Lists those with a counter or a sequence. */
  list(page: PageByName): Promise<NamespaceState[]>
  /**
   * Sets the defaults for counters and sequences created from now on.
   *
   * @throws {NthError} UNAVAILABLE; safe to retry
   */
  define(name: string, change: NamespaceChange): Promise<NamespaceState>
}

export function openNamespaces(store: NamespaceStore): Namespaces {
  const { read, readMany } = batchReads(
    ({ name }: { name: string }) => name,
    store.read,
    ({ name }): NamespaceState => ({ name, retention: DEFAULT_RETENTION }),
  )
  return {
    read: (name) => read({ name }),
    readMany: (names) => readMany(names.map((name) => ({ name }))),
    list: store.list,
    define: (name, change) => store.define(name, (present) => changed(present, change)),
  }
}

function changed(present: Retention, { timeZone, periods }: NamespaceChange): Retention {
  return {
    timeZone: timeZone === undefined ? present.timeZone : (timeZone ?? DEFAULT_RETENTION.timeZone),
    periods:
      periods === undefined ? present.periods : periods ? periodsOf(periods) : DEFAULT_RETENTION.periods,
  }
}
