import type { RowDataPacket } from 'mysql2'
import type { NamespaceState, NamespaceStore } from '../../core/counters/namespaces.ts'
import { type Database, inTransaction } from '../connections/database.ts'
import { ER, hasErrorNumber } from '../connections/errors.ts'
import { bytes, integer } from '../literals.ts'
import { openNamespace } from '../rowCache.ts'
import { onPage, pageOf } from '../select.ts'
import { IS_THERE } from '../sequences/reads.ts'
import { IS_WRITTEN } from './columns.ts'
import { periodsText, retentionIn } from './retention.ts'

/** Whether readers see a counter or a sequence in it. */
const HOLDS_ANYTHING = `(exists (
              select 1
                from counter c
                join counter_value v on v.counter_id = c.id
               where c.namespace_id = n.id and v.period = 0 and ${IS_WRITTEN})
            or exists (
              select 1
                from sequence s
               where s.namespace_id = n.id and ${IS_THERE}))`

export function openNamespaceStore(database: Database, definitions: Database): NamespaceStore {
  return {
    async read(names) {
      const [rows] = await database.withRetry((connection) =>
        connection.query<RowDataPacket[]>(
          `select name, time_zone, periods from namespace where name in (${names.map(({ name }) => bytes(name)).join(', ')})`,
        ),
      )
      return rows.map(stateIn)
    },

    async list(page) {
      const [rows] = await database.withRetry((connection) =>
        connection.query<RowDataPacket[]>(
          `select n.name, n.time_zone, n.periods
             from namespace n
            where ${[...onPage('n.name', page), HOLDS_ANYTHING].join(' and ')}
            ${pageOf('n.name', page)}`,
        ),
      )
      return rows.map(stateIn)
    },

    define: (name, change) =>
      definitions.withRetry(async (connection) => {
        // Created on its own first: another session may create it at the same time.
        await openNamespace(connection, name).catch((error) => {
          if (!hasErrorNumber(error, ER.DUP_ENTRY)) throw error
        })
        return inTransaction(connection, async () => {
          const [[row]] = await connection.query<RowDataPacket[]>(
            `select id, name, time_zone, periods from namespace where name = ${bytes(name)} for update`,
          )
          if (!row) throw new Error(`No namespace ${JSON.stringify(name)} after creating it`)
          const retention = change(stateIn(row).retention)
          await connection.query(
            `update namespace
                set time_zone = ${bytes(retention.timeZone)},
                    periods = ${bytes(periodsText(retention.periods))}
              where id = ${integer(row.id)}`,
          )
          return { name, retention }
        })
      }),
  }
}

function stateIn({ name, time_zone, periods }: RowDataPacket): NamespaceState {
  return {
    name: name.toString('utf8'),
    retention: retentionIn(time_zone.toString('latin1'), periods.toString('latin1')),
  }
}
