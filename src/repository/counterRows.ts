import { DEFINITION, type DefinitionRow, definitionIn, openedColumns } from '../commit/periodStatements.ts'
import type { FailoverDetector } from '../mysql/health.ts'
import type { Connection, Database } from '../mysql/pool.ts'
import {
  bytes,
  firstVersion,
  groupBy,
  integer,
  list,
  type NamedRow,
  nameIn,
  REVISION_OF_NOW,
  select,
  selectByName,
} from '../mysql/sql.ts'
import { type CounterKey, keyText } from '../rules/counter.ts'
import { runningAt } from '../rules/periods.ts'
import type { CounterRow } from '../rules/rows.ts'
import { createSalt } from '../rules/subjects.ts'
import { createRowCache } from './batches.ts'
import { findOrCreateNamespace, retentionOf } from './namespaces.ts'

export function openCounterRows(database: Database, failover: FailoverDetector) {
  return createRowCache(database, failover, {
    textOf: keyText,
    read: readCounterRows,
    create: createCounters,
  })
}

type IdentifiedRow = DefinitionRow &
  NamedRow &
  Record<'id' | 'version', number> & { subject_salt: Buffer | null }

/** Reads counters' rows, by the texts of their keys. */
export async function readCounterRows(connection: Connection, keys: readonly CounterKey[], incarnation = 0) {
  const statement = selectByName(
    keys,
    'c.name',
    (isNamed) =>
      `select n.name as namespace, c.name, c.id, c.version, c.subject_salt, ${DEFINITION}
         from namespace n
         join counter c on c.namespace_id = n.id
        where ${isNamed}`,
  )
  const rows = await select<IdentifiedRow>(connection, statement)
  return new Map<string, CounterRow>(
    rows.map((row) => {
      const { id, version } = row
      const key = `counter ${id} ${version}`
      const definition = definitionIn(row)
      const salt = row.subject_salt?.toString('hex')
      const changedAt = Number.NEGATIVE_INFINITY
      const counter = { kind: 'counter', key, id, version, incarnation, definition, salt, changedAt } as const
      return [keyText(nameIn(row)), counter]
    }),
  )
}

/** Creates counters with their rows. Readers don't see them before their first change or definition. */
async function createCounters(connection: Connection, keys: readonly CounterKey[], at: Date): Promise<void> {
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
    await connection.query(
      `insert into counter_value (counter_id, slot, version, revision${opened.names})
       select id, 0, version, ${REVISION_OF_NOW}${opened.values}
         from counter
        where namespace_id = ${integer(id)} and name in (${list(siblings, ({ name }) => bytes(name))})`,
    )
  }
}
