import type { CountingRow } from './counting.ts'
import type { NumberedRow } from './numberedRow.ts'

/** What a flush is about, as the database has it. */
export type StoredRow = CountingRow | NumberedRow
