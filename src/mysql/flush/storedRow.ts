import type { CountingRow } from '../counters/update.ts'
import type { NumberedRow } from '../sequences/numberedRow.ts'

/** A row of a flush, as stored in the database. */
export type StoredRow = CountingRow | NumberedRow
