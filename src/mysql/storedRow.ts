import type { CountingRow } from './counting.ts'
import type { NumberedRow } from './numberedRow.ts'

/** A row of a flush, as stored in the database. */
export type StoredRow = CountingRow | NumberedRow
