import type { Retention } from '../../../core/counters/definition.ts'
import type { NamespaceEntry } from '../../../core/transfer/entries.ts'
import { OTHER_DEFINITION, type Result } from '../../../core/transfer/outcome.ts'
import { periodsText } from '../../counters/columns.ts'
import { retentionOf } from '../../counters/namespaces.ts'
import { bytes, integer, list } from '../../literals.ts'
import { select } from '../../select.ts'
import { type ImportContext, locking, write } from './context.ts'

type Row = { id: number } & Record<'name' | 'time_zone' | 'periods', Buffer>

export async function importNamespaces(
  context: ImportContext,
  entries: readonly NamespaceEntry[],
): Promise<Result[]> {
  const rows = await select<Row>(
    context.connection,
    `select id, name, time_zone, periods
       from namespace force index (namespace_name)
      where name in (${list(entries, ({ name }) => bytes(name))})
      order by name ${locking(context)}`,
  )
  const found = new Map(rows.map((row) => [row.name.toString(), row]))
  const missing = entries
    .filter(({ name }) => !found.has(name))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
  if (missing.length > 0) {
    const values = list(missing, (entry) => `(${bytes(entry.name)}, ${retentionValues(entry).join(', ')})`)
    await write(context, `insert into namespace (name, time_zone, periods) values ${values}`)
  }
  const results: Result[] = []
  for (const entry of entries) results.push(await importOne(context, entry, found.get(entry.name)))
  return results
}

async function importOne(
  context: ImportContext,
  entry: NamespaceEntry,
  row: Row | undefined,
): Promise<Result> {
  if (!row) return { outcome: 'created' }
  const present = retentionOf(row.time_zone, row.periods)
  const [timeZone, periods] = retentionValues(entry)
  if (`${retentionValues(present)}` === `${[timeZone, periods]}`) return { outcome: 'unchanged' }
  if (!context.overwrite) return { outcome: 'unchanged', note: OTHER_DEFINITION }
  await write(
    context,
    `update namespace set time_zone = ${timeZone}, periods = ${periods} where id = ${integer(row.id)}`,
  )
  return { outcome: 'lowered' }
}

function retentionValues({ timeZone, periods }: Retention): [string, string] {
  return [bytes(timeZone), bytes(periodsText(periods))]
}
