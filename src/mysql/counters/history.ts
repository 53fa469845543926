import type { HistoryStretch } from '../../core/counters/history.ts'
import { joinNames } from '../../core/names.ts'
import type { Connection } from '../connections/database.ts'
import { groupBy } from '../groupBy.ts'
import { bytes, instant, list } from '../literals.ts'
import { select } from '../select.ts'
import { PERIOD_CODES } from './columns.ts'

/** Reads the totals of the periods that begin within stretches of time, in one statement. */
export async function readHistory(connection: Connection, stretches: readonly HistoryStretch[]) {
  const groups = groupBy(stretches, ({ namespace, period, from, to }) =>
    joinNames(namespace, period, String(from), String(to)),
  )
  const families = [...groups.values()]
  const rows = await select<{ stretch: number; name: Buffer; starts_at: Date; value: number | string }>(
    connection,
    families.map(selectTotals).join('\nunion all\n'),
  )
  return rows.map(({ stretch, name, starts_at, value }) => {
    const [first] = families[stretch] ?? []
    if (!first) throw new RangeError(`Unknown stretch ${stretch}`)
    return { ...first, name: name.toString(), start: starts_at.getTime(), value: Number(value) }
  })
}

/** `stretch` is the index of a family: counters of one namespace, and the same stretch of the same period. */
function selectTotals(siblings: readonly [HistoryStretch, ...HistoryStretch[]], stretch: number): string {
  const [{ namespace, period, from, to }] = siblings
  return `select ${stretch} as stretch, c.name, v.starts_at, cast(sum(v.value) as signed) as value
           from namespace n
           join counter c on c.namespace_id = n.id
           join counter_value v on v.counter_id = c.id and v.period = ${PERIOD_CODES[period]}
          where n.name = ${bytes(namespace)}
            and c.name in (${list(siblings, ({ name }) => bytes(name))})
            and v.starts_at >= ${instant(Math.max(from, 0))} and v.starts_at < ${instant(Math.max(to, 0))}
          group by c.name, v.starts_at`
}
