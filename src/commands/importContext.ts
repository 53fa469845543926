import type { Connection } from '../mysql/pool.ts'
import type { Options } from '../rules/merge.ts'

/** What applies a batch of entries within one transaction. */
export interface ImportContext extends Options {
  connection: Connection
  /** By the database's clock. */
  now: Date
}

/** Thrown where a row was deleted or redefined between two reads: the batch is applied again. */
export class ChangedMeanwhileError extends Error {
  override readonly name = 'ChangedMeanwhileError'
}
