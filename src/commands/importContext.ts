import type { Connection } from '../mysql/pool.ts'
import { bytes, list, select } from '../mysql/sql.ts'
import { findOrCreateNamespace, type NamespaceRow, retentionOf } from '../repository/namespaces.ts'
import { DEFAULT_RETENTION } from '../rules/counter.ts'
import type { Options, Result } from '../rules/merge.ts'

/** What applies a batch of entries within one transaction. */
export interface ImportContext extends Options {
  connection: Connection
  /** Nothing is locked or written; what the batch would have created is missing afterwards. */
  isDryRun: boolean
  /** By the database's clock. */
  now: Date
}

/** Thrown where a row was deleted or redefined between two reads: the batch is applied again. */
export class ChangedMeanwhileError extends Error {
  override readonly name = 'ChangedMeanwhileError'
}

export async function write({ connection, isDryRun }: ImportContext, statement: string): Promise<void> {
  if (!isDryRun) await connection.query(statement)
}

/** The end of a locking read. */
export function locking({ isDryRun }: ImportContext, clause = 'for update'): string {
  return isDryRun ? '' : clause
}

/** Whether a result means that something is written. */
export function isWritten({ outcome }: Result): boolean {
  return outcome === 'created' || outcome === 'raised' || outcome === 'lowered'
}

/** Ids and defaults of namespaces by their names; created where missing. In a dry run these have the id 0. */
export async function findNamespaces(context: ImportContext, keys: readonly { namespace: string }[]) {
  const { connection, isDryRun } = context
  const names = [...new Set(keys.map(({ namespace }) => namespace))].toSorted()
  const rows = await select<NamespaceRow>(
    connection,
    `select id, name, time_zone, periods from namespace where name in (${list(names, bytes)})`,
  )
  const found = new Map(
    rows.map(({ id, name, time_zone, periods }) => [
      name.toString(),
      { id, retention: retentionOf(time_zone, periods) },
    ]),
  )
  if (!isDryRun) {
    for (const name of names) {
      if (found.has(name)) continue
      const { id } = await findOrCreateNamespace(connection, name)
      found.set(name, { id, retention: DEFAULT_RETENTION })
    }
  }
  return (name: string) => found.get(name) ?? { id: 0, retention: DEFAULT_RETENTION }
}
