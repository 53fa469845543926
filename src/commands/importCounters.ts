import {
  closePeriods,
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
import { findOrCreateNamespace, retentionOf } from '../repository/namespaces.ts'
import { PERIODS } from '../rules/calendar.ts'
import { type CounterKey, keyText } from '../rules/counter.ts'
import type { CounterEntry, CounterHistoryEntry, StoredPeriodTotal } from '../rules/entries.ts'
import {
  type CounterMerge,
  isWritten,
  mergeCounter,
  mergeHistory,
  type PresentCounter,
  type Result,
  totalKey,
} from '../rules/merge.ts'
import { ChangedMeanwhileError, type ImportContext } from './importContext.ts'
import { addedTo, columnTotals, SLOT_COLUMNS, type SlotRow, type TotalRow, totalIn } from './snapshot.ts'

type CounterLine = CounterEntry | CounterHistoryEntry

/** The locked rows of a counter. */
interface PresentRow extends PresentCounter {
  id: number
  version: number
  slots: readonly SlotRow[]
}

/** What is written of a counter. `row`: undefined if there is none. */
interface MergedCounter {
  entry: CounterLine
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
  entries: readonly CounterLine[],
): Promise<Result[]> {
  const { connection } = context
  const merged: MergedCounter[] = []
  const rows = await lockCounters(connection, entries)
  for (const [name, siblings] of groupBy(entries, ({ namespace }) => namespace)) {
    const { id: namespaceId, time_zone, periods } = await findOrCreateNamespace(connection, name)
    const definition = { bounds: undefined, slots: 1, ...retentionOf(time_zone, periods) }
    const missing = { exists: false, value: 0, definition, totals: new Map() }
    for (const entry of siblings) {
      const row = rows.get(keyText(entry))
      const present = row ?? missing
      const merge =
        entry.type === 'counter'
          ? mergeCounter(present, entry, context)
          : mergeHistory(present, entry, context)
      merged.push({ entry, namespaceId, row, merge })
    }
  }
  const written = merged.filter(({ merge }) => isWritten(merge))
  if (written.length > 0) await writeCounters(context, written)
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

/** Locks counters, and reads them with the totals that their entries have. */
async function lockCounters(
  connection: Connection,
  entries: readonly CounterLine[],
): Promise<Map<string, PresentRow>> {
  const found = new Map(
    (await findCounters(connection, entries)).map((row) => [keyText(nameIn(row)), row] as const),
  )
  if (found.size === 0) return new Map()
  const ids = [...found.values()].map(({ id }) => id).toSorted((a, b) => a - b)
  const locked = await select<SlotRow>(
    connection,
    `select ${SLOT_COLUMNS}
       from counter_value force index (primary)
      where counter_id in (${list(ids, integer)})
      order by counter_id, slot
        for update`,
  )
  const slotsOf = groupBy(locked, ({ id }) => id)
  const wanted = entries.flatMap((entry) => {
    const id = found.get(keyText(entry))?.id
    return id === undefined ? [] : entry.history.map((total) => ({ ...total, id }))
  })
  const history = groupBy(await lockHistory(connection, wanted), ({ id }) => id)
  return new Map(
    [...found].map(([text, row]) => {
      const { id, version } = row
      const slots = slotsOf.get(id)
      if (!slots || slots.some((slot) => slot.version !== version)) throw new ChangedMeanwhileError()
      const totals = columnTotals(slots)
      for (const stored of history.get(id) ?? []) {
        const total = totalIn(stored)
        totals.set(totalKey(total), addedTo(totals, total))
      }
      const exists = slots.some(({ created_at }) => created_at !== null)
      const value = Number(slots.reduce((sum, { value }) => sum + BigInt(value), 0n))
      return [text, { id, version, slots, exists, value, definition: definitionIn(row), totals }]
    }),
  )
}

/** Maximum history rows that one statement asks for: more ranges would use too much of the server's memory. */
const MAX_RANGES = 2000

/** Locks and reads history rows. */
async function lockHistory(
  connection: Connection,
  wanted: readonly (StoredPeriodTotal & { id: number })[],
): Promise<TotalRow[]> {
  const rows: TotalRow[] = []
  for (let from = 0; from < wanted.length; from += MAX_RANGES) {
    const places = groupBy(
      wanted.slice(from, from + MAX_RANGES),
      ({ id, period }) => `counter_id = ${integer(id)} and period = ${PERIOD_CODES[period]}`,
    )
    const conditions = [...places].map(
      ([place, some]) => `(${place} and start in (${list(some, ({ start }) => integer(start))}))`,
    )
    rows.push(
      ...(await select<TotalRow>(
        connection,
        `select counter_id as id, period, start, value
           from counter_history force index (primary)
          where ${conditions.join(' or ')}
          order by counter_id, period, start
            for update`,
      )),
    )
  }
  return rows
}

/** A counter with its row in `counter`. `isNew`: it has no rows of its values yet. */
type Located = MergedCounter & { id: number; version: number; isNew: boolean }

/** History rows per statement: at most 60 kB, as one counter's can't be divided otherwise. */
const HISTORY_ROWS = 1000

/**
 * Writes counters, whose rows are locked. Totals go to the history, and what the columns had of running periods goes
 * there before: the next addition takes it up from there, as after a new definition.
 */
async function writeCounters(
  { connection, now }: ImportContext,
  merged: readonly MergedCounter[],
): Promise<void> {
  const closed = merged.flatMap(({ row, merge: { definition, totals } }) =>
    row && (definition || totals.length > 0) ? [row.id] : [],
  )
  if (closed.length > 0)
    await executeEach(connection, [
      ...PERIODS.map((period) => closePeriods(closed, period)),
      `update counter_value force index (primary)
   set ${NO_PERIODS}
 where counter_id in (${list(closed, integer)})`,
    ])
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
  const missing = merged.filter(({ row }) => !row)
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
