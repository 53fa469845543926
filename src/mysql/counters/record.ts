import type { Coalesced, CounterWork } from '../../core/groupCommit/batch.ts'
import type { CounterRow } from '../../core/rows.ts'

/** A counter's row, as a flush identifies it. */
export interface CounterRecord extends CounterRow {
  id: number
  /** Version of the definition that was read with it. */
  version: number
  /** Incarnation of the database when the row was read. */
  incarnation: number
  /** Instant of the latest flush of this process that changed it, in milliseconds since 1970. */
  changedAt: number
}

/** The operations of a flush on a counter of this store. */
export type CounterRecordWork = CounterWork & { readonly row: CounterRecord }

export type CoalescedRecordWork = Coalesced<CounterRecordWork>
