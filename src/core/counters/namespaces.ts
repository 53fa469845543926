import { withChange } from '../change.ts'
import { batchReads } from '../eventLoop/batchReads.ts'
import { DEFAULT_RETENTION, periodsOf, type Retention, type RetentionChange } from './definition.ts'
import type { PageByName } from './pages.ts'

export interface NamespaceState {
  name: string
  /** Default time zone and periods of what is created in it. */
  retention: Retention
}

export interface NamespaceStore {
  /** Reads those that exist, in any order. */
  read(names: readonly { name: string }[]): Promise<NamespaceState[]>
  /** Lists those with a counter or a sequence: all, or those with one of some names. */
  list(page: PageByName, names?: readonly string[]): Promise<NamespaceState[]>
  /** Changes the defaults, and creates the namespace if it doesn't exist. Safe to retry. */
  define(name: string, change: (present: Retention) => Retention): Promise<NamespaceState>
}

export function openNamespaces(store: NamespaceStore) {
  const { read } = batchReads(
    ({ name }: { name: string }) => name,
    store.read,
    ({ name }): NamespaceState => ({ name, retention: DEFAULT_RETENTION }),
  )
  return {
    read: (name: string) => read({ name }),
    list: store.list,

    /**
     * Sets the defaults for counters and sequences created from now on.
     *
     * @throws {NthError} UNAVAILABLE; safe to retry
     */
    define(name: string, { timeZone, periods }: RetentionChange): Promise<NamespaceState> {
      const change = { timeZone, periods: periods && periodsOf(periods) }
      return store.define(name, (present) => withChange(present, change, DEFAULT_RETENTION))
    },
  }
}
