import type { Connection } from 'mysql2/promise'
import {
  COLUMNS,
  COUNTER_EXISTS,
  DEFINITION,
  type DefinitionRow,
  definitionIn,
  JOIN_VALUE,
  PERIOD_CODES,
  type PeriodsRow,
} from '../commit/periodStatements.ts'
import { integer, type NamedRow, nameIn, select } from '../mysql/sql.ts'
import { PERIODS, type Period } from '../rules/calendar.ts'
import {
  type CounterEntry,
  type CounterHistoryEntry,
  MAX_PARTS,
  type StoredPeriodTotal,
} from '../rules/entries.ts'
import { totalKey } from '../rules/merge.ts'

/** Columns of all slots of counters. */
export const SLOT_COLUMNS = [
  'counter_id as id, slot, version, value, revision, created_at, updated_at',
  ...PERIODS.flatMap((period) => [COLUMNS[period].start, COLUMNS[period].added]),
].join(', ')

export interface SlotRow extends Record<'id' | 'slot' | 'version', number> {
  value: number | string
  revision: number | string
  created_at: Date | null
  updated_at: Date | null
}

/** The sum of the slots of a counter. A slot may be beyond the safe range although the sum is not. */
export function sumOf(slots: readonly SlotRow[]): number {
  return Number(slots.reduce((sum, { value }) => sum + BigInt(value), 0n))
}

/** What the columns of all slots of a counter have of each period, by `totalKey`. */
export function columnTotals(slots: readonly SlotRow[]): Map<string, StoredPeriodTotal> {
  const totals = new Map<string, StoredPeriodTotal>()
  for (const slot of slots) {
    // The other columns are those of periods.
    const columns = slot as unknown as PeriodsRow
    for (const period of PERIODS) {
      const start = columns[COLUMNS[period].start]
      const added = columns[COLUMNS[period].added]
      if (start == null || added == null || BigInt(added) === 0n) continue
      const key = totalKey({ period, start: Number(start) })
      const before = totals.get(key)?.value ?? 0n
      totals.set(key, { period, start: Number(start), value: BigInt(added) + before })
    }
  }
  return totals
}

export function periodOf(code: number): Period {
  const period = PERIODS.find((name) => PERIOD_CODES[name] === code)
  if (!period) throw new Error(`Unknown period in the database: ${code}`)
  return period
}

/** Rows of history per statement. */
const HISTORY_PAGE = 10_000

/** Counters in the order of their ids. One with a long history has several entries. */
export async function* exportCounters(
  connection: Connection,
  withHistory: boolean,
): AsyncGenerator<CounterEntry | CounterHistoryEntry> {
  const slotsOf = eachOf(
    rowsOf<SlotRow>((after) => readSlots(connection, after)),
    (slot) => slot,
  )
  const historyOf = eachOf(
    rowsOf<ExportedHistoryRow>((after) => readHistory(connection, after), HISTORY_PAGE),
    ({ period, start, value }): StoredPeriodTotal => ({
      period: periodOf(period),
      start,
      value: BigInt(value),
    }),
  )
  for await (const row of rowsOf<ExportedCounterRow>((after) => readCounters(connection, after))) {
    const key = nameIn(row)
    const definition = definitionIn(row)
    const slots: SlotRow[] = []
    for await (const slot of slotsOf(row.id)) slots.push(slot)
    let isFirst = true
    const totals = totalsOf(columnTotals(slots), withHistory ? historyOf(row.id) : [])
    for await (const history of partsOf(totals)) {
      if (isFirst) yield { type: 'counter', ...key, history, definition, ...stateOf(slots) }
      else yield { type: 'counterHistory', ...key, history, timeZone: definition.timeZone }
      isFirst = false
    }
  }
}

function stateOf(slots: readonly SlotRow[]) {
  const updated = slots.flatMap(({ updated_at }) => (updated_at ? [updated_at.getTime()] : []))
  return {
    value: sumOf(slots),
    createdAt: slots.find(({ created_at }) => created_at)?.created_at ?? undefined,
    updatedAt: updated.length > 0 ? new Date(Math.max(...updated)) : null,
  }
}

/** The total of a period is what its history row and the columns have. */
async function* totalsOf(
  columns: Map<string, StoredPeriodTotal>,
  history: AsyncIterable<StoredPeriodTotal> | Iterable<StoredPeriodTotal>,
): AsyncGenerator<StoredPeriodTotal> {
  for await (const total of history) {
    const inColumns = columns.get(totalKey(total))?.value ?? 0n
    columns.delete(totalKey(total))
    yield { ...total, value: total.value + inColumns }
  }
  yield* columns.values()
}

type ExportedCounterRow = DefinitionRow & NamedRow & { id: number }

/** `straight_join`: MariaDB would begin with the namespaces, and sort all later counters for each page. */
function readCounters(
  connection: Connection,
  after: ExportedCounterRow | undefined,
): Promise<ExportedCounterRow[]> {
  return select(
    connection,
    `select straight_join n.name as namespace, c.name, c.id, ${DEFINITION}
       from counter c force index (primary)
       join namespace n on n.id = c.namespace_id
       join counter_value v on ${JOIN_VALUE}
      where c.id > ${integer(after?.id ?? 0)} and ${COUNTER_EXISTS}
      order by c.id
      limit ${PAGE}`,
  )
}

function readSlots(connection: Connection, { id, slot } = { id: 0, slot: 0 }): Promise<SlotRow[]> {
  return select(
    connection,
    `select ${SLOT_COLUMNS}
       from counter_value force index (primary)
      where counter_id >= ${integer(id)} and (counter_id > ${integer(id)} or slot > ${integer(slot)})
      order by counter_id, slot
      limit ${PAGE}`,
  )
}

interface ExportedHistoryRow extends Record<'id' | 'period' | 'start', number> {
  value: number | string
}

function readHistory(
  connection: Connection,
  { id, period, start }: Pick<ExportedHistoryRow, 'id' | 'period' | 'start'> = { id: 0, period: 0, start: 0 },
): Promise<ExportedHistoryRow[]> {
  return select(
    connection,
    `select counter_id as id, period, start, value
       from counter_history force index (primary)
      where counter_id >= ${integer(id)}
        and (counter_id > ${integer(id)} or period > ${integer(period)}
             or (period = ${integer(period)} and start > ${integer(start)}))
      order by counter_id, period, start
      limit ${HISTORY_PAGE}`,
  )
}

/** Rows per statement of an export. */
export const PAGE = 2000

/** All rows of a select, a page at a time: each begins after the last row of the one before. */
export async function* rowsOf<Row>(
  read: (after: Row | undefined) => Promise<Row[]>,
  size = PAGE,
): AsyncGenerator<Row> {
  let page: Row[] = []
  do {
    page = await read(page.at(-1))
    yield* page
  } while (page.length === size)
}

/** Returns a function that finds the rows of each id, called in the order of the ids. Rows of other ids are skipped. */
export function eachOf<Row extends { id: number }, Item>(
  rows: AsyncGenerator<Row>,
  itemIn: (row: Row) => Item,
): (id: number) => AsyncGenerator<Item> {
  let row: Row | undefined
  return async function* itemsOf(id) {
    row ??= (await rows.next()).value
    while (row && row.id <= id) {
      if (row.id === id) yield itemIn(row)
      row = (await rows.next()).value
    }
  }
}

/** Divides what belongs to one name into parts of a line each. There is always a first one. */
export async function* partsOf<Item>(items: AsyncIterable<Item>): AsyncGenerator<Item[]> {
  let part: Item[] = []
  let isFirst = true
  for await (const item of items) {
    part.push(item)
    if (part.length < MAX_PARTS) continue
    yield part
    part = []
    isFirst = false
  }
  if (isFirst || part.length > 0) yield part
}
