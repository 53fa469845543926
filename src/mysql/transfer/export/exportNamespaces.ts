import type { Connection } from 'mysql2/promise'
import type { NamespaceEntry } from '../../../core/transfer/entries.ts'
import { retentionOf } from '../../counters/namespaces.ts'
import { integer } from '../../literals.ts'
import { select } from '../../select.ts'
import { PAGE, pagesOf } from './pages.ts'

type NamespaceRow = { id: number } & Record<'name' | 'time_zone' | 'periods', Buffer>

export async function* exportNamespaces(connection: Connection): AsyncGenerator<NamespaceEntry> {
  const read = (after: NamespaceRow | undefined) =>
    select<NamespaceRow>(
      connection,
      `select n.id, n.name, n.time_zone, n.periods
         from namespace n
        where n.id > ${integer(after?.id ?? 0)}
        order by n.id
        limit ${PAGE}`,
    )
  for await (const page of pagesOf(read, PAGE)) {
    for (const { name, time_zone, periods } of page) {
      yield { type: 'namespace', name: name.toString(), ...retentionOf(time_zone, periods) }
    }
  }
}
