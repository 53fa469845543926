import { DEFAULT_RETENTION, type PeriodChoice, periodsOf, type Retention } from './definition.ts'
import { gather } from './gather.ts'
import type { PageByName } from './listing.ts'

export interface NamespaceState {
  name: string
  /** What is kept of what comes into being in it. */
  retention: Retention
}

/** What is to change; undefined: stays as it is; null: back to the default. */
export interface NamespaceChange {
  timeZone?: string | null | undefined
  periods?: readonly PeriodChoice[] | null | undefined
}

/** Where namespaces are kept. */
export interface NamespaceStore {
  /** Those that there are, of those asked for, in any order. */
  read(names: readonly { name: string }[]): Promise<NamespaceState[]>
  /** Those that hold anything. */
  list(page: PageByName): Promise<NamespaceState[]>
  /** Changes what is kept, and makes the namespace where it isn't there. A repeat does no harm. */
  define(name: string, change: (present: Retention) => Retention): Promise<NamespaceState>
}

export interface Namespaces {
  read(name: string): Promise<NamespaceState>
  readMany(names: readonly string[]): Promise<NamespaceState[]>
  /** Those that hold a counter or a sequence. */
  list(page: PageByName): Promise<NamespaceState[]>
  /**
   * Sets the defaults for what comes into being from now on.
   *
   * @throws {NthError} UNAVAILABLE; a repeat does no harm
   */
  define(name: string, change: NamespaceChange): Promise<NamespaceState>
}

export function openNamespaces(store: NamespaceStore): Namespaces {
  const { read, readMany } = gather(
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
