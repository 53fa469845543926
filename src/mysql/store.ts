import type { Store } from '../core/nth.ts'
import { openCounterStore } from './counters.ts'
import type { Database } from './database.ts'
import { openSequenceStore } from './sequences.ts'

export function openStore(database: Database): Store {
  return { counters: openCounterStore(database), sequences: openSequenceStore(database) }
}
