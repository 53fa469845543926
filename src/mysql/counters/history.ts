import type { HistoryStretch } from '../../core/counters/history.ts'
import { joinNames } from '../../core/names.ts'
import type { Connection } from '../connections/database.ts'
import { groupBy } from '../groupBy.ts'
import { bytes, list } from '../literals.ts'
import { select } from '../select.ts'
import { PERIOD_CODES } from './columns.ts'
import { COLUMNS, startSecond } from './periods.ts'

/**
 * Reads the totals of the periods that begin within stretches of time: from the history, and from the columns of values.
 * In one statement: between two, a period could move from the columns to the history.
 */
export async function readHistory(connection: Connection, stretches: readonly HistoryStretch[]) {
  const groups = groupBy(stretches, ({ namespace, period, from, to }) =>
    joinNames(namespace, period, String(from), String(to)),
  )
  const families = [...groups.values()]
  const rows = await select<{ stretch: number; name: Buffer; start: number; value: number | string }>(
    connection,
    families.map(selectTotals).join('\nunion all\n'),
  )
  return rows.map(({ stretch, name, start, value }) => {
    const [first] = families[stretch] ?? []
    if (!first) throw new RangeError(`Unknown stretch ${stretch}`)
    return { ...first, name: name.toString(), start: 1000 * start, value: BigInt(value) }
  })
}

/** `stretch` is the index of a family: counters of one namespace, and the same stretch of the same period. */
function selectTotals(siblings: readonly [HistoryStretch, ...HistoryStretch[]], stretch: number): string {
  const [{ namespace, period, from, to }] = siblings
  const columns = COLUMNS[period]
  const counters = `from namespace n
           join counter c on c.namespace_id = n.id`
  const isNamed = `n.name = ${bytes(namespace)} and c.name in (${list(siblings, ({ name }) => bytes(name))})`
  const isIn = (start: string) => `${start} >= ${startSecond(from)} and ${start} < ${startSecond(to)}`
  return `select ${stretch} as stretch, c.name, h.start, h.value
           ${counters}
           join counter_history h on h.counter_id = c.id and h.period = ${PERIOD_CODES[period]}
          where ${isNamed} and ${isIn('h.start')}
         union all
         select ${stretch}, c.name, v.${columns.start}, cast(sum(v.${columns.added}) as signed)
           ${counters}
           join counter_value v on v.counter_id = c.id
          where ${isNamed} and ${isIn(`v.${columns.start}`)}
          group by c.name, v.${columns.start}`
}
