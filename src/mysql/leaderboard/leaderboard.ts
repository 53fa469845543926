import type { LeaderboardOrder, LeaderboardPage, SortKey } from '../../core/counters/pages.ts'
import type { Connection } from '../connections/database.ts'
import { JOIN_VALUE, STATE, type StateRow, stateIn } from '../counters/columns.ts'
import { bytes, EPOCH, instant, integer } from '../literals.ts'
import { select } from '../select.ts'

interface ListedRow extends StateRow {
  id: number
  listed_value: number
  /** Null: never changed. */
  listed_at: Date | null
}

/** The index of each order: its column, and how that is written. */
const indexes = {
  VALUE_DESC: { sortedBy: 'value', isDescending: true, literal: integer },
  VALUE_ASC: { sortedBy: 'value', isDescending: false, literal: integer },
  UPDATED_AT_DESC: { sortedBy: 'updated_at', isDescending: true, literal: instant },
} satisfies Record<LeaderboardOrder, object>

/**
 * Reads a page. The server starts at its position in the index and reads no further than the page. That takes both
 * `force index` and this form of the condition: otherwise MariaDB scans all rows before it, or all with the same value.
 * Measured on 10.11, in the middle of a million: 0.4 ms rather than 1.2 s.
 */
export async function listLeaderboard(connection: Connection, namespace: string, page: LeaderboardPage) {
  const { order, after, before, limit, fromEnd } = page
  const { sortedBy, isDescending, literal } = indexes[order]
  const column = `r.${sortedBy}`
  const [behind, ahead] = isDescending ? ['<', '>'] : ['>', '<']
  const direction = isDescending === fromEnd ? 'asc' : 'desc'
  const beyond = ({ sortedBy, id }: SortKey, side: string) => {
    const by = literal(sortedBy)
    return `(${column} ${side} ${by} or ${column} = ${by} and r.counter_id ${side} ${integer(id)})`
  }
  const conditions = [`n.name = ${bytes(namespace)}`]
  if (after) conditions.push(beyond(after, behind))
  if (before) conditions.push(beyond(before, ahead))
  const rows = await select<ListedRow>(
    connection,
    `select ${STATE}, c.id,
            r.value as listed_value, nullif(r.updated_at, ${EPOCH}) as listed_at
       from namespace n
       join leaderboard r force index (leaderboard_${sortedBy}) on r.namespace_id = n.id
       join counter c on c.id = r.counter_id
       join counter_value v on ${JOIN_VALUE}
      where ${conditions.join(' and ')}
      order by ${column} ${direction}, r.counter_id ${direction}
      limit ${integer(limit)}`,
  )
  return rows.map((row) => ({
    ...stateIn(row),
    listedValue: row.listed_value,
    sortKey: {
      sortedBy: order === 'UPDATED_AT_DESC' ? (row.listed_at?.getTime() ?? 0) : row.listed_value,
      id: row.id,
    },
  }))
}
