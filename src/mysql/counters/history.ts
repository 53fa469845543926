import type { RowDataPacket } from 'mysql2'
import type { HistoryRow, HistoryStretch } from '../../core/counters/history.ts'
import { joinNames } from '../../core/names.ts'
import type { Connection } from '../connections/database.ts'
import { bytes, instant } from '../literals.ts'
import { selectByParent } from '../select.ts'
import { PERIOD_CODES } from './retention.ts'

/** Reads the totals of the periods that begin within stretches of time, in one statement. */
export async function readHistory(
  connection: Connection,
  stretches: readonly HistoryStretch[],
): Promise<HistoryRow[]> {
  const asked: HistoryStretch[] = []
  const [rows] = await connection.query<RowDataPacket[]>(
    selectByParent(stretches, stretchText, (siblings) => {
      const [first] = siblings
      const { namespace, period, from, to } = first
      asked.push(first)
      return `select ${asked.length - 1} as stretch, c.name, v.starts_at, cast(sum(v.value) as signed) as value
           from namespace n
           join counter c on c.namespace_id = n.id
           join counter_value v on v.counter_id = c.id and v.period = ${PERIOD_CODES[period]}
          where n.name = ${bytes(namespace)}
            and c.name in (${siblings.map(({ name }) => bytes(name)).join(', ')})
            and v.starts_at >= ${instant(new Date(Math.max(from, 0)))} and v.starts_at < ${instant(new Date(Math.max(to, 0)))}
          group by c.name, v.starts_at`
    }),
  )
  return rows.map(({ stretch, name, starts_at, value }) => {
    const { namespace, period, from, to } = of(asked, stretch)
    return {
      namespace,
      name: name.toString('utf8'),
      period,
      from,
      to,
      start: starts_at.getTime(),
      value: Number(value),
    }
  })
}

function of(asked: readonly HistoryStretch[], index: number): HistoryStretch {
  const stretch = asked[index]
  if (!stretch) throw new RangeError(`Unknown stretch ${index}`)
  return stretch
}

function stretchText({ namespace, period, from, to }: HistoryStretch): string {
  return joinNames(namespace, period, String(from), String(to))
}
