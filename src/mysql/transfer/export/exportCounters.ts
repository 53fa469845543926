import type { Connection } from 'mysql2/promise'
import { PERIODS, type Period } from '../../../core/time/calendar.ts'
import {
  type CounterEntry,
  type CounterHistoryEntry,
  MAX_PARTS,
  type PeriodTotal,
} from '../../../core/transfer/entries.ts'
import { totalKey } from '../../../core/transfer/mergeCounter.ts'
import {
  COUNTER_EXISTS,
  DEFINITION,
  type DefinitionRow,
  definitionIn,
  JOIN_VALUE,
  PERIOD_CODES,
} from '../../counters/columns.ts'
import { groupBy } from '../../groupBy.ts'
import { integer } from '../../literals.ts'
import { type NamedRow, nameIn, select } from '../../select.ts'
import { columnTotals, SLOT_COLUMNS, type SlotRow } from '../slotRows.ts'
import { PAGE, pagesOf, rowsOfEach } from './pages.ts'

type CounterRow = DefinitionRow & NamedRow & { id: number }

/** Counters in the order of their ids. One with a long history has several entries. */
export async function* exportCounters(
  connection: Connection,
  withHistory: boolean,
): AsyncGenerator<CounterEntry | CounterHistoryEntry> {
  const read = (after: CounterRow | undefined) => readCounters(connection, after?.id ?? 0)
  for await (const page of pagesOf(read, PAGE)) {
    const range = { from: page[0].id, to: page.at(-1)?.id ?? page[0].id }
    const slots = groupBy(await readSlots(connection, range), ({ id }) => id)
    const history = withHistory ? historyReader(connection, range) : undefined
    for (const row of page) {
      const its = slots.get(row.id) ?? []
      yield* entriesOf(row, its, history?.(row.id) ?? nothing())
    }
  }
}

async function* entriesOf(row: CounterRow, slots: readonly SlotRow[], history: AsyncIterable<HistoryRow>) {
  const key = nameIn(row)
  const definition = definitionIn(row)
  const columns = new Map(columnTotals(slots).map((total) => [totalKey(total), total]))
  let parts: PeriodTotal[] = []
  let isFirst = true

  function entry(): CounterEntry | CounterHistoryEntry {
    const own = { ...key, history: parts }
    if (!isFirst) return { type: 'counterHistory', ...own, timeZone: definition.timeZone }
    isFirst = false
    const updated = slots.flatMap(({ updated_at }) => (updated_at ? [updated_at.getTime()] : []))
    const [createdAt] = slots.flatMap(({ created_at }) => created_at ?? [])
    const updatedAt = updated.length > 0 ? new Date(Math.max(...updated)) : null
    const value = Number(slots.reduce((sum, { value }) => sum + BigInt(value), 0n))
    return { type: 'counter', ...own, value, definition, createdAt, updatedAt }
  }

  for await (const { period: code, start, value } of history) {
    const period = periodOf(code)
    const key = totalKey({ period, start })
    const inColumns = columns.get(key)
    columns.delete(key)
    parts.push({ period, start, value: BigInt(value) + (inColumns?.value ?? 0n) })
    if (parts.length >= MAX_PARTS) {
      yield entry()
      parts = []
    }
  }
  parts.push(...columns.values())
  if (isFirst || parts.length > 0) yield entry()
}

async function* nothing(): AsyncGenerator<HistoryRow> {}

/** `straight_join`: MariaDB would begin with the namespaces, and sort all later counters for each page. */
function readCounters(connection: Connection, after: number): Promise<CounterRow[]> {
  return select(
    connection,
    `select straight_join n.name as namespace, c.name, c.id, ${DEFINITION}
       from counter c force index (primary)
       join namespace n on n.id = c.namespace_id
       join counter_value v on ${JOIN_VALUE}
      where c.id > ${integer(after)} and ${COUNTER_EXISTS}
      order by c.id
      limit ${PAGE}`,
  )
}

interface Range {
  from: number
  to: number
}

function readSlots(connection: Connection, { from, to }: Range): Promise<SlotRow[]> {
  return select(
    connection,
    `select ${SLOT_COLUMNS}
       from counter_value force index (primary)
      where counter_id between ${integer(from)} and ${integer(to)}
      order by counter_id, slot`,
  )
}

interface HistoryRow {
  id: number
  period: number
  start: number
  value: number | string
}

/** Rows of history per statement. */
const HISTORY_PAGE = 10_000

/** Reads the history of each counter of a range. */
function historyReader(connection: Connection, { from, to }: Range) {
  const read = (after: HistoryRow = { id: from, period: 0, start: 0, value: 0 }) =>
    select<HistoryRow>(
      connection,
      `select counter_id as id, period, start, value
         from counter_history force index (primary)
        where counter_id >= ${integer(after.id)} and counter_id <= ${integer(to)}
          and (counter_id > ${integer(after.id)} or period > ${integer(after.period)}
               or (period = ${integer(after.period)} and start > ${integer(after.start)}))
        order by counter_id, period, start
        limit ${HISTORY_PAGE}`,
    )
  return rowsOfEach(pagesOf(read, HISTORY_PAGE))
}

function periodOf(code: number): Period {
  const period = PERIODS.find((name) => PERIOD_CODES[name] === code)
  if (!period) throw new Error(`Unknown period in the database: ${code}`)
  return period
}
