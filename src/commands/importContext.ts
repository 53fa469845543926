import { select } from '../mysql/sql.ts'
import type { Connection } from '../mysql/transactions.ts'
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

/** Whether something locked has rows. A locking read: a plain one may miss what was committed before it was locked. */
export async function hasRows(connection: Connection, tables: string): Promise<boolean> {
  return (await select(connection, `select 1 from ${tables} limit 1 lock in share mode`)).length > 0
}
