import { DEFAULT_RETENTION, type Retention } from '../../../core/counters/definition.ts'
import type { Options } from '../../../core/transfer/outcome.ts'
import type { Connection } from '../../connections/database.ts'
import { findOrCreateNamespace, retentionOf } from '../../counters/namespaces.ts'
import { bytes, list } from '../../literals.ts'
import { select } from '../../select.ts'

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

interface FoundNamespace {
  id: number
  retention: Retention
}

/** Namespaces by their names; created where missing. In a dry run these are without an id. */
export async function findNamespaces(context: ImportContext, names: readonly string[]) {
  const { connection, isDryRun } = context
  const wanted = [...new Set(names)].toSorted()
  const rows = await select<{ id: number } & Record<'name' | 'time_zone' | 'periods', Buffer>>(
    connection,
    `select id, name, time_zone, periods from namespace where name in (${list(wanted, bytes)})`,
  )
  const found = new Map<string, FoundNamespace>(
    rows.map(({ id, name, time_zone, periods }) => [
      name.toString(),
      { id, retention: retentionOf(time_zone, periods) },
    ]),
  )
  for (const name of wanted) {
    if (found.has(name)) continue
    const { id } = isDryRun ? { id: 0 } : await findOrCreateNamespace(connection, name)
    found.set(name, { id, retention: DEFAULT_RETENTION })
  }
  return (name: string): FoundNamespace => found.get(name) ?? { id: 0, retention: DEFAULT_RETENTION }
}
