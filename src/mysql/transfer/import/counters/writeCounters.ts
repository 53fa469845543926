import type { ResultSetHeader } from 'mysql2'
import type { Definition } from '../../../../core/counters/definition.ts'
import { executeEach } from '../../../batches.ts'
import { periodsText } from '../../../counters/columns.ts'
import { groupBy } from '../../../groupBy.ts'
import { copyRows } from '../../../leaderboard/leaderboardCopy.ts'
import { bytes, integer, list, orNull } from '../../../literals.ts'
import { firstVersion } from '../../../revisions.ts'
import { select } from '../../../select.ts'
import type { ImportContext } from '../context.ts'
import type { MergedCounter } from './counterRows.ts'
import { historyRows, type Located, otherSlots, writeValues } from './valueRows.ts'

/** History rows per statement: at most 60 kB, as one counter's can't be divided otherwise. */
const HISTORY_ROWS = 1000

/** Writes counters, whose rows are locked. */
export async function writeCounters(context: ImportContext, merged: readonly MergedCounter[]): Promise<void> {
  if (merged.length === 0) return
  const located = [...(await createCounters(context, merged)), ...(await redefineCounters(context, merged))]
  const rest = merged.flatMap((one): Located[] =>
    one.present && !one.merge.definition
      ? [{ ...one, ...one.present, isNew: false, present: one.present }]
      : [],
  )
  const all = [...located, ...rest].sort((a, b) => a.id - b.id)
  await context.connection.query(writeValues(all, context.now))
  const others = all.flatMap(otherSlots)
  if (others.length > 0)
    await context.connection.query(
      `insert into counter_value (counter_id, slot, version, value) values ${others.join(', ')}`,
    )
  const history = all.flatMap(historyRows)
  for (let from = 0; from < history.length; from += HISTORY_ROWS) {
    await context.connection.query(
      `insert into counter_history (counter_id, period, start, value)
values ${history.slice(from, from + HISTORY_ROWS).join(', ')}
on duplicate key update value = values(value)`,
    )
  }
  await copyRows(
    context.connection,
    all.map(({ id }) => id),
  )
}

/** Creates the rows in `counter` that don't exist. */
async function createCounters({ connection }: ImportContext, merged: readonly MergedCounter[]) {
  const missing = merged.filter(({ present }) => !present)
  const located: Located[] = []
  for (const [namespaceId, siblings] of groupBy(missing, (one) => one.namespaceId)) {
    const sorted = siblings.toSorted((a, b) => (a.entry.name < b.entry.name ? -1 : 1))
    const values = sorted.flatMap(({ entry, merge: { definition } }) =>
      definition
        ? [
            `(${integer(namespaceId)}, ${bytes(entry.name)}, ${firstVersion()}, ${definitionValues(definition).join(', ')})`,
          ]
        : [],
    )
    await connection.query<ResultSetHeader>(
      `insert into counter (namespace_id, name, version, ${DEFINITION_COLUMNS.join(', ')}) values ${values.join(', ')}`,
    )
    const names = list(sorted, ({ entry }) => bytes(entry.name))
    const rows = await select<{ id: number; version: number; name: Buffer }>(
      connection,
      `select id, version, name from counter where namespace_id = ${integer(namespaceId)} and name in (${names})`,
    )
    const ids = new Map(rows.map((row) => [row.name.toString(), row]))
    for (const one of sorted) {
      const row = ids.get(one.entry.name)
      if (row) located.push({ ...one, id: row.id, version: row.version, isNew: true })
    }
  }
  return located
}

/** Gives present counters another definition, and removes the rows of their values, which are then written anew. */
async function redefineCounters({ connection }: ImportContext, merged: readonly MergedCounter[]) {
  const located: Located[] = []
  for (const one of merged) {
    const { present, merge } = one
    const { definition, isCleared } = merge
    if (!present || !definition) continue
    const { id, version } = present
    const values = definitionValues(definition)
    const set = DEFINITION_COLUMNS.map((column, index) => `${column} = ${values[index]}`)
    await executeEach(connection, [
      `update counter set ${set.join(', ')}, version = ${integer(version + 1)} where id = ${integer(id)}`,
      `delete from counter_value where counter_id = ${integer(id)}`,
      ...(isCleared ? [`delete from counter_history where counter_id = ${integer(id)}`] : []),
    ])
    located.push({ ...one, id, version: version + 1, isNew: true })
  }
  return located
}

const DEFINITION_COLUMNS = ['min_value', 'max_value', 'saturates', 'slots', 'time_zone', 'periods']

function definitionValues({ bounds, slots, timeZone, periods }: Definition): string[] {
  const { minValue = null, maxValue = null, overflow } = bounds ?? {}
  const limits = [orNull(minValue, integer), orNull(maxValue, integer), String(overflow === 'SATURATE')]
  return [...limits, integer(slots), bytes(timeZone), bytes(periodsText(periods))]
}
