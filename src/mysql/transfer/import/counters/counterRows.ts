import { type CounterKey, keyText } from '../../../../core/counters/state.ts'
import { PERIODS } from '../../../../core/time/calendar.ts'
import type { CounterEntry, CounterHistoryEntry, PeriodTotal } from '../../../../core/transfer/entries.ts'
import { type CounterMerge, type PresentCounter, totalKey } from '../../../../core/transfer/mergeCounter.ts'
import { DEFINITION, type DefinitionRow, definitionIn, PERIOD_CODES } from '../../../counters/columns.ts'
import { groupBy } from '../../../groupBy.ts'
import { integer, list } from '../../../literals.ts'
import { type NamedRow, nameIn, select, selectByName } from '../../../select.ts'
import { columnTotals, SLOT_COLUMNS, type SlotRow } from '../../slotRows.ts'
import { ChangedMeanwhileError, type ImportContext, locking } from '../context.ts'

/** The locked rows of a counter. */
export interface PresentRow extends PresentCounter {
  id: number
  version: number
  slots: readonly SlotRow[]
  /** What the columns of its slots have, and its history rows; by `totalKey`. */
  inColumns: ReadonlyMap<string, bigint>
  inHistory: ReadonlyMap<string, bigint>
}

/** What is written of a counter. `present`: its row; undefined: there is none. */
export interface MergedCounter {
  entry: CounterEntry | CounterHistoryEntry
  namespaceId: number
  present: PresentRow | undefined
  merge: CounterMerge
}

type FoundRow = DefinitionRow & NamedRow & Record<'id' | 'version', number>

/** Locks counters, and reads them with the totals that some entries have, and those of their running periods. */
export async function lockCounters(
  context: ImportContext,
  entries: readonly (CounterKey & { history: readonly PeriodTotal[] })[],
): Promise<Map<string, PresentRow>> {
  const found = await select<FoundRow>(
    context.connection,
    selectByName(
      entries,
      'c.name',
      (isNamed) =>
        `select n.name as namespace, c.name, c.id, c.version, ${DEFINITION}
           from namespace n
           join counter c on c.namespace_id = n.id
          where ${isNamed}`,
    ),
  )
  if (found.length === 0) return new Map()
  const slots = groupBy(await lockSlots(context, found), ({ id }) => id)
  const wanted = new Map(entries.map((entry) => [keyText(entry), entry.history]))
  const counters = found.map((row) => {
    const own = slots.get(row.id) ?? []
    if (own.length === 0 || own.some(({ version }) => version !== row.version))
      throw new ChangedMeanwhileError()
    const columns = columnTotals(own)
    const totals = [...columns, ...(wanted.get(keyText(nameIn(row))) ?? [])]
    return { row, own, columns, totals }
  })
  const history = await readTotals(
    context,
    counters.map(({ row: { id }, totals }) => ({ id, totals })),
  )
  return new Map(
    counters.map(({ row, own, columns }) => {
      const { id, version } = row
      const inHistory = history.get(id) ?? new Map()
      const present = { id, version, slots: own, inHistory, definition: definitionIn(row) }
      return [keyText(nameIn(row)), { ...present, ...stateOf(own, columns, inHistory) }]
    }),
  )
}

function stateOf(slots: readonly SlotRow[], columns: readonly PeriodTotal[], inHistory: Map<string, bigint>) {
  const inColumns = new Map(columns.map((total) => [totalKey(total), total.value]))
  const totals = new Map<string, PeriodTotal>()
  for (const key of new Set([...inColumns.keys(), ...inHistory.keys()])) {
    const [name, start] = key.split(' ')
    const period = PERIODS.find((one) => one === name)
    if (!period) continue
    const value = (inColumns.get(key) ?? 0n) + (inHistory.get(key) ?? 0n)
    totals.set(key, { period, start: Number(start), value })
  }
  return {
    exists: slots.some(({ created_at }) => created_at !== null),
    value: Number(slots.reduce((sum, { value }) => sum + BigInt(value), 0n)),
    totals,
    inColumns,
  }
}

function lockSlots(context: ImportContext, found: readonly { id: number }[]): Promise<SlotRow[]> {
  const ids = found.map(({ id }) => id).toSorted((a, b) => a - b)
  return select(
    context.connection,
    `select ${SLOT_COLUMNS}
       from counter_value force index (primary)
      where counter_id in (${list(ids, integer)})
      order by counter_id, slot ${locking(context)}`,
  )
}

interface Wanted {
  id: number
  totals: readonly { period: PeriodTotal['period']; start: number }[]
}

/** Maximum history rows that one statement asks for: more ranges would use too much of the server's memory. */
const MAX_RANGES = 2000

/** Locks and reads history rows: of each counter those of some periods. */
async function readTotals(context: ImportContext, wanted: readonly Wanted[]) {
  const found = new Map<number, Map<string, bigint>>()
  const ranges = wanted.flatMap(({ id, totals }) =>
    [...groupBy(totals, ({ period }) => period)].map(([period, some]) => {
      const starts = [...new Set(some.map(({ start }) => start))].toSorted((a, b) => a - b)
      return {
        id,
        period,
        starts,
        where: `period = ${PERIOD_CODES[period]} and start in (${starts.join(', ')})`,
      }
    }),
  )
  for (let from = 0; from < ranges.length; ) {
    let [to, size] = [from, 0]
    while (to < ranges.length && (to === from || size + (ranges[to]?.starts.length ?? 0) <= MAX_RANGES))
      size += ranges[to++]?.starts.length ?? 0
    // Counters with the same periods share a condition.
    const groups = groupBy(ranges.slice(from, to), ({ where }) => where)
    const conditions = [...groups].map(
      ([where, some]) => `counter_id in (${list(some, ({ id }) => integer(id))}) and ${where}`,
    )
    const rows = await select<{ id: number; period: number; start: number; value: number | string }>(
      context.connection,
      `select counter_id as id, period, start, value
         from counter_history force index (primary)
        where ${conditions.map((one) => `(${one})`).join(' or ')}
        order by counter_id, period, start ${locking(context)}`,
    )
    for (const { id, period: code, start, value } of rows) {
      const period = PERIODS.find((one) => PERIOD_CODES[one] === code)
      if (!period) continue
      const own = found.get(id) ?? new Map<string, bigint>()
      found.set(id, own.set(totalKey({ period, start }), BigInt(value)))
    }
    from = to
  }
  return found
}
