import {
  DEFINITION,
  DEFINITION_COLUMNS,
  type DefinitionRow,
  definitionIn,
  definitionSet,
  definitionValues,
  NO_PERIODS,
  PERIOD_CODES,
} from '../commit/periodStatements.ts'
import type { Connection } from '../mysql/pool.ts'
import {
  bytes,
  firstVersion,
  groupBy,
  instant,
  integer,
  list,
  type NamedRow,
  nameIn,
  orNull,
  REVISION_OF_NOW,
  select,
  selectByName,
} from '../mysql/sql.ts'
import { executeEach } from '../repository/batches.ts'
import { copyRows } from '../repository/leaderboard.ts'
import { type CounterKey, keyText, UNBOUNDED } from '../rules/counter.ts'
import type { CounterEntry, CounterHistoryEntry, StoredPeriodTotal } from '../rules/entries.ts'
import {
  type CounterMerge,
  mergeCounter,
  mergeHistory,
  type PresentCounter,
  type Result,
  totalKey,
} from '../rules/merge.ts'
import { columnTotals, periodOf, SLOT_COLUMNS, type SlotRow, sumOf } from './exportCounters.ts'
import {
  ChangedMeanwhileError,
  findNamespaces,
  type ImportContext,
  isWritten,
  locking,
} from './importContext.ts'

/** The locked rows of a counter. */
interface PresentRow extends PresentCounter {
  id: number
  version: number
  slots: readonly SlotRow[]
}

/** What is written of a counter. `row`: undefined if there is none. */
interface MergedCounter {
  entry: CounterEntry | CounterHistoryEntry
  namespaceId: number
  row: PresentRow | undefined
  merge: CounterMerge
}

/**
 * Merges counters into present ones. Locks the rows of the values in the order of their ids, as flushes do, then the
 * history and the leaderboard: only the holder of a counter's first row writes those.
 */
export async function importCounters(
  context: ImportContext,
  entries: readonly (CounterEntry | CounterHistoryEntry)[],
): Promise<Result[]> {
  const namespaceOf = await findNamespaces(context, entries)
  const rows = await lockCounters(context, entries)
  const merged = entries.map((entry): MergedCounter => {
    const { id: namespaceId, retention } = namespaceOf(entry.namespace)
    const row = rows.get(keyText(entry))
    const definition = { ...UNBOUNDED, slots: 1, ...retention }
    const present = row ?? { exists: false, value: 0, definition, totals: new Map(), running: [] }
    if (entry.type === 'counter')
      return { entry, namespaceId, row, merge: mergeCounter(present, entry, context) }
    // In a dry run its counter may have been left uncreated.
    const assumed = { ...present, exists: true, definition: { ...definition, timeZone: entry.timeZone } }
    const merge = mergeHistory(context.isDryRun && !row ? assumed : present, entry, context)
    return { entry, namespaceId, row, merge }
  })
  const written = merged.filter(({ merge }) => isWritten(merge))
  if (!context.isDryRun && written.length > 0) await writeCounters(context, written)
  return merged.map(({ merge: { outcome, note } }) => ({ outcome, note }))
}

type FoundRow = DefinitionRow & NamedRow & Record<'id' | 'version', number>

function findCounters(connection: Connection, keys: readonly CounterKey[]): Promise<FoundRow[]> {
  const statement = selectByName(
    keys,
    'c.name',
    (isNamed) =>
      `select n.name as namespace, c.name, c.id, c.version, ${DEFINITION}
         from namespace n
         join counter c on c.namespace_id = n.id
        where ${isNamed}`,
  )
  return select(connection, statement)
}

/** Locks counters, and reads them with the totals that some entries have, and those of their running periods. */
async function lockCounters(
  context: ImportContext,
  entries: readonly (CounterEntry | CounterHistoryEntry)[],
): Promise<Map<string, PresentRow>> {
  const found = await findCounters(context.connection, entries)
  if (found.length === 0) return new Map()
  const ids = found.map(({ id }) => id).toSorted((a, b) => a - b)
  const locked = await select<SlotRow>(
    context.connection,
    `select ${SLOT_COLUMNS}
       from counter_value force index (primary)
      where counter_id in (${list(ids, integer)})
      order by counter_id, slot ${locking(context)}`,
  )
  const slotsOf = groupBy(locked, ({ id }) => id)
  const imported = new Map(entries.map((entry) => [keyText(entry), entry.history]))
  const counters = found.map((row) => {
    const slots = slotsOf.get(row.id)
    if (!slots || slots.some(({ version }) => version !== row.version)) throw new ChangedMeanwhileError()
    const columns = columnTotals(slots)
    return {
      row,
      slots,
      columns,
      wanted: [...columns.values(), ...(imported.get(keyText(nameIn(row))) ?? [])],
    }
  })
  const history = await lockHistory(
    context,
    counters.map(({ row: { id }, wanted }) => ({ id, wanted })),
  )
  return new Map(
    counters.map(({ row, slots, columns }) => {
      const totals = new Map(columns)
      for (const total of history.get(row.id) ?? []) {
        const inColumns = columns.get(totalKey(total))?.value ?? 0n
        totals.set(totalKey(total), { ...total, value: total.value + inColumns })
      }
      const present = {
        id: row.id,
        version: row.version,
        slots,
        exists: slots.some(({ created_at }) => created_at !== null),
        value: sumOf(slots),
        definition: definitionIn(row),
        totals,
        running: [...columns.keys()].flatMap((key) => totals.get(key) ?? []),
      }
      return [keyText(nameIn(row)), present]
    }),
  )
}

/** Maximum history rows that one statement asks for: more ranges would use too much of the server's memory. */
const MAX_RANGES = 2000

/** Locks and reads history rows: of each counter those of some periods. */
async function lockHistory(
  context: ImportContext,
  counters: readonly { id: number; wanted: readonly StoredPeriodTotal[] }[],
): Promise<Map<number, StoredPeriodTotal[]>> {
  const ranges = counters.flatMap(({ id, wanted }) =>
    [...groupBy(wanted, ({ period }) => period)].map(([period, totals]) => {
      const starts = [...new Set(totals.map(({ start }) => start))].toSorted((a, b) => a - b)
      const where = `period = ${PERIOD_CODES[period]} and start in (${list(starts, integer)})`
      return { id, where, size: starts.length }
    }),
  )
  const found: { id: number; total: StoredPeriodTotal }[] = []
  while (ranges.length > 0) {
    let [count, size] = [0, 0]
    do size += ranges[count++]?.size ?? 0
    while (count < ranges.length && size + (ranges[count]?.size ?? 0) <= MAX_RANGES)
    // Counters with the same periods share a condition.
    const conditions = [...groupBy(ranges.splice(0, count), ({ where }) => where)].map(
      ([where, some]) => `(counter_id in (${list(some, ({ id }) => integer(id))}) and ${where})`,
    )
    const rows = await select<Record<'id' | 'period' | 'start', number> & { value: number | string }>(
      context.connection,
      `select counter_id as id, period, start, value
         from counter_history force index (primary)
        where ${conditions.join(' or ')}
        order by counter_id, period, start ${locking(context)}`,
    )
    for (const { id, period, start, value } of rows)
      found.push({ id, total: { period: periodOf(period), start, value: BigInt(value) } })
  }
  const byId = groupBy(found, ({ id }) => id)
  return new Map([...byId].map(([id, some]) => [id, some.map(({ total }) => total)]))
}

/** A counter with its row in `counter`. `isNew`: it has no rows of its values yet. */
type Located = MergedCounter & { id: number; version: number; isNew: boolean }

/** History rows per statement: at most 60 kB, as one counter's can't be divided otherwise. */
const HISTORY_ROWS = 1000

/**
 * Writes counters, whose rows are locked. Totals go to the history, and what the columns had of running periods goes with
 * them: the next addition takes it up from there, as after a new definition.
 */
async function writeCounters(
  { connection, now }: ImportContext,
  merged: readonly MergedCounter[],
): Promise<void> {
  const created = await createCounters(connection, merged)
  const all = [...created, ...(await redefineCounters(connection, merged))].sort((a, b) => a.id - b.id)
  // Where there are several slots, what is added goes to the first one.
  await connection.query(
    `insert into counter_value (counter_id, slot, version, value, revision, created_at, updated_at)
values ${list(all, (counter) => firstSlot(counter, now))}
on duplicate key update
       revision = revision + 1,
       value = value + values(value),
       updated_at = greatest(coalesce(updated_at, values(updated_at)), coalesce(values(updated_at), updated_at))`,
  )
  const others = all.flatMap(({ id, version, isNew, merge: { definition } }) => {
    const slots = (isNew && definition?.slots) || 1
    return Array.from(
      { length: slots - 1 },
      (_, index) => `(${integer(id)}, ${index + 1}, ${integer(version)}, 0)`,
    )
  })
  if (others.length > 0)
    await connection.query(
      `insert into counter_value (counter_id, slot, version, value) values ${others.join(', ')}`,
    )
  const emptied = all.filter(({ isNew, merge }) => !isNew && merge.totals.length > 0)
  if (emptied.length > 0)
    await connection.query(
      `update counter_value force index (primary)
   set ${NO_PERIODS}
 where counter_id in (${list(emptied, ({ id }) => integer(id))})`,
    )
  const history = all.flatMap(({ id, merge }) =>
    merge.totals.map(
      ({ period, start, value }) => `(${integer(id)}, ${PERIOD_CODES[period]}, ${integer(start)}, ${value})`,
    ),
  )
  for (let from = 0; from < history.length; from += HISTORY_ROWS) {
    await connection.query(
      `insert into counter_history (counter_id, period, start, value)
values ${history.slice(from, from + HISTORY_ROWS).join(', ')}
on duplicate key update value = values(value)`,
    )
  }
  await copyRows(
    connection,
    all.map(({ id }) => id),
  )
}

/** The values of a first slot: of a present one, what is added to its value. */
function firstSlot({ entry, row, merge, id, version, isNew }: Located, now: Date): string {
  const { createdAt = now, updatedAt = now } = entry.type === 'counter' ? entry : { updatedAt: null }
  const value = BigInt(merge.value) - BigInt(isNew || !row ? 0 : row.value)
  const createdBefore = row?.slots.find(({ created_at }) => created_at)?.created_at
  const revision = row?.exists
    ? row.slots.reduce((sum, { revision }) => sum + BigInt(revision), 0n)
    : REVISION_OF_NOW
  const times = `${instant(createdBefore ?? createdAt)}, ${orNull(updatedAt, instant)}`
  return `(${integer(id)}, 0, ${integer(version)}, ${value}, ${revision} + 1, ${times})`
}

/** Creates the rows in `counter` that don't exist. */
async function createCounters(connection: Connection, merged: readonly MergedCounter[]): Promise<Located[]> {
  const missing = merged
    .filter(({ row }) => !row)
    .toSorted((a, b) => a.namespaceId - b.namespaceId || (a.entry.name < b.entry.name ? -1 : 1))
  if (missing.length === 0) return []
  const values = missing.flatMap(({ entry, namespaceId, merge: { definition } }) => {
    if (!definition) return []
    const name = `${integer(namespaceId)}, ${bytes(entry.name)}, ${firstVersion()}`
    return `(${name}, ${definitionValues(definition).join(', ')})`
  })
  await connection.query(
    `insert into counter (namespace_id, name, version, ${DEFINITION_COLUMNS.join(', ')}) values ${values.join(', ')}`,
  )
  const rows = await findCounters(
    connection,
    missing.map(({ entry }) => entry),
  )
  const found = new Map(rows.map((row) => [keyText(nameIn(row)), row]))
  return missing.flatMap((counter) => {
    const row = found.get(keyText(counter.entry))
    return row ? { ...counter, id: row.id, version: row.version, isNew: true } : []
  })
}

/** Gives present counters their new definitions, and removes the rows of their values, which are then written anew. */
async function redefineCounters(
  connection: Connection,
  merged: readonly MergedCounter[],
): Promise<Located[]> {
  const located: Located[] = []
  for (const counter of merged) {
    const { row, merge } = counter
    if (!row) continue
    const { definition, isCleared } = merge
    const [id, version] = [row.id, row.version + (definition ? 1 : 0)]
    located.push({ ...counter, id, version, isNew: definition !== undefined })
    if (!definition) continue
    await executeEach(connection, [
      `update counter set ${definitionSet(definition)}, version = ${integer(version)} where id = ${integer(id)}`,
      `delete from counter_value where counter_id = ${integer(id)}`,
      ...(isCleared ? [`delete from counter_history where counter_id = ${integer(id)}`] : []),
    ])
  }
  return located
}
