import { openedColumns } from '../commit/periodStatements.ts'
import type { Connection } from '../mysql/connection.ts'
import type { FailoverDetector } from '../mysql/health.ts'
import type { Database } from '../mysql/pool.ts'
import {
  bytes,
  FIRST_REVISION,
  firstVersion,
  groupBy,
  integer,
  list,
  type NamedRow,
  nameIn,
  selectByName,
} from '../mysql/sql.ts'
import { type CounterKey, keyText } from '../rules/counter.ts'
import { runningAt } from '../rules/periods.ts'
import type { CounterRow } from '../rules/rows.ts'
import { createSalt } from '../rules/subjects.ts'
import { createRowCache } from './batches.ts'
import { DEFINITION, type DefinitionRow, definitionIn } from './columns.ts'
import { findOrCreateNamespace, retentionOf } from './namespaces.ts'

export function openCounterRows(database: Database, failover: FailoverDetector, maxBytes?: number) {
  return createRowCache(database, failover, {
    maxBytes,
    textOf: keyText,
    read: readCounterRows,
    create: createCounters,
  })
}

/** Columns that identify a counter for flushes, besides its definition. Table alias: c. */
export const IDENTITY = 'c.id, c.namespace_id, c.version, c.subject_salt, c.forgotten_at'

export type IdentifiedRow = DefinitionRow &
  NamedRow &
  Record<'id' | 'namespace_id' | 'version' | 'forgotten_at', number> & { subject_salt: Buffer | null }

/** Reads counters' rows, by the texts of their keys. */
export async function readCounterRows(connection: Connection, keys: readonly CounterKey[], incarnation = 0) {
  const statement = selectByName(
    keys,
    'c.name',
    (isNamed) =>
      `select n.name as namespace, c.name, ${IDENTITY}, ${DEFINITION}
         from namespace n
         join counter c on c.namespace_id = n.id
        where ${isNamed}`,
  )
  const rows = await connection.select<IdentifiedRow>(statement)
  return new Map(rows.map((row) => [keyText(nameIn(row)), counterRowIn(row, incarnation)] as const))
}

export function counterRowIn(row: IdentifiedRow, incarnation: number): CounterRow {
  // No spread: what follows one would be stored outside of the object, which every call reads.
  return {
    kind: 'counter',
    id: row.id,
    namespaceId: row.namespace_id,
    version: row.version,
    incarnation,
    definition: definitionIn(row),
    salt: row.subject_salt?.toString('hex'),
    forgottenSecond: row.forgotten_at,
    changedAt: Number.NEGATIVE_INFINITY,
  }
}

/** Creates counters with their rows. Readers don't see them before their first change or definition. */
async function createCounters(connection: Connection, keys: readonly CounterKey[], at: Date): Promise<void> {
  const inserts: string[] = []
  for (const [namespace, siblings] of groupBy(keys, (key) => key.namespace)) {
    const { id, time_zone, periods } = await findOrCreateNamespace(connection, namespace)
    const rest = `${bytes(time_zone)}, ${bytes(periods)}`
    await connection.query(
      `insert into counter (namespace_id, name, version, time_zone, periods, subject_salt)
       values ${list(
         siblings,
         ({ name }) =>
           `(${integer(id)}, ${bytes(name)}, ${integer(firstVersion())}, ${rest}, x'${createSalt()}')`,
       )}`,
    )
    // Where the first change happens in the same periods, its statement finds them running.
    const opened = openedColumns(runningAt(retentionOf(time_zone, periods), at.getTime()))
    inserts.push(
      `insert into counter_value (counter_id, slot, version, revision${opened.names})
       select id, 0, version, ${FIRST_REVISION}${opened.values}
         from counter
        where namespace_id = ${integer(id)} and name in (${list(siblings, ({ name }) => bytes(name))})`,
    )
  }
  for (const statement of inserts) await connection.query(statement)
}
