import { redefine } from '../commit/counterDefinition.ts'
import { closePeriods, definitionColumns, NO_PERIODS, PERIOD_CODES } from '../commit/periodStatements.ts'
import { isKept } from '../commit/subjectStatements.ts'
import {
  bytes,
  FIRST_REVISION,
  firstVersion,
  groupBy,
  hex,
  instant,
  integer,
  list,
  orNull,
  readValue,
  select,
} from '../mysql/sql.ts'
import type { Connection } from '../mysql/transactions.ts'
import { readCounterRows } from '../repository/counters.ts'
import { copyRows } from '../repository/leaderboardSync.ts'
import { findOrCreateNamespace, retentionOf } from '../repository/namespaces.ts'
import { PERIODS } from '../rules/calendar.ts'
import { keyText, UNBOUNDED } from '../rules/counter.ts'
import type { EntryOf } from '../rules/entries.ts'
import { PAST_LEADERBOARDS } from '../rules/leaderboards.ts'
import {
  type ImportedCounter,
  type Merge,
  mergeCounter,
  mergeHistory,
  newSalt,
  OTHER_SALT,
  type PresentCounter,
  type Result,
  refused,
  totalKey,
} from '../rules/merge.ts'
import type { CounterRow } from '../rules/rows.ts'
import { createSalt } from '../rules/subjects.ts'
import { ChangedMeanwhileError, hasRows, type ImportContext } from './importContext.ts'
import { addedTo, columnTotals, SLOT_COLUMNS, type SlotRow, type TotalRow, totalIn } from './totals.ts'

type CounterLine = EntryOf<'counter'> | EntryOf<'counterHistory'>

/** The locked rows of a counter. */
interface PresentRow extends PresentCounter {
  counter: CounterRow
}

/** What is written of a counter. `row`: undefined if there is none. */
interface MergedCounter extends ImportedCounter {
  entry: CounterLine
  namespaceId: number
  row: PresentRow | undefined
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
  const results: Result[] = []
  const merged: MergedCounter[] = []
  const rows = await lockCounters(connection, entries)
  for (const [name, siblings] of groupBy(entries, ({ namespace }) => namespace)) {
    const { id: namespaceId, time_zone, periods } = await findOrCreateNamespace(connection, name)
    const definition = { ...UNBOUNDED, ...retentionOf(time_zone, periods) }
    const missing = { exists: false, value: 0, definition, totals: new Map() }
    for (const entry of siblings) {
      const row = rows.get(keyText(entry))
      const present = row ?? missing
      const { id, forgottenSecond } = row?.counter ?? {}
      const subjects = `counter_subject force index (primary) where counter_id = ${id} and ${isKept(`${forgottenSecond}`)}`
      const isOther =
        row && 'subjectSalt' in entry && newSalt(row, entry) && (await hasRows(connection, subjects))
      const { written, ...result }: Merge<ImportedCounter> = isOther
        ? refused(OTHER_SALT)
        : entry.type === 'counter'
          ? mergeCounter(present, entry, context)
          : mergeHistory(present, entry, context)
      results.push(result)
      if (written) merged.push({ entry, namespaceId, row, ...written })
    }
  }
  if (merged.length > 0) await writeCounters(context, merged)
  return results
}

/** Locks counters, and reads them with the totals that their entries have. */
export async function lockCounters(
  connection: Connection,
  entries: readonly Pick<CounterLine, 'namespace' | 'name' | 'history'>[],
): Promise<Map<string, PresentRow>> {
  const found = await readCounterRows(connection, entries)
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
  const history = groupBy(await lockHistory(connection, found, entries), ({ id }) => id)
  return new Map(
    [...found].map(([text, counter]) => {
      const slots = slotsOf.get(counter.id)
      if (!slots || slots.some(({ version }) => version !== counter.version))
        throw new ChangedMeanwhileError()
      const totals = columnTotals(slots)
      for (const row of history.get(counter.id) ?? []) {
        const total = totalIn(row)
        totals.set(totalKey(total), addedTo(totals, total))
      }
      const exists = slots.some(({ created_at }) => created_at !== null)
      const value = Number(slots.reduce((sum, { value }) => sum + BigInt(value), 0n))
      const { definition, salt } = counter
      return [text, { counter, exists, value, definition, salt, totals }]
    }),
  )
}

/** Locks and reads the history rows of counters within the periods that their entries have. */
async function lockHistory(
  connection: Connection,
  counters: ReadonlyMap<string, CounterRow>,
  entries: readonly Pick<CounterLine, 'namespace' | 'name' | 'history'>[],
): Promise<TotalRow[]> {
  const ranges = entries.flatMap((entry) => {
    const counter = counters.get(keyText(entry))
    if (!counter) return []
    return [...groupBy(entry.history, ({ period }) => period)].map(([period, totals]) => {
      const starts = totals.map(({ start }) => start)
      return `(counter_id = ${integer(counter.id)} and period = ${PERIOD_CODES[period]}
            and start between ${integer(Math.min(...starts))} and ${integer(Math.max(...starts))})`
    })
  })
  if (ranges.length === 0) return []
  return select(
    connection,
    `select counter_id as id, period, start, value
       from counter_history force index (primary)
      where ${ranges.join(' or ')}
      order by counter_id, period, start
        for update`,
  )
}

/** History rows per statement: at most 60 kB, as one counter's can't be divided otherwise. */
const HISTORY_ROWS = 1000

/**
 * Writes counters, whose rows are locked. Totals go to the history, and what the columns had of running periods goes
 * there before: the next addition takes it up from there, as after a new definition.
 */
async function writeCounters(context: ImportContext, merged: readonly MergedCounter[]): Promise<void> {
  const { connection, now } = context
  await closeOrRedefine(context, merged)
  const created = await createCounters(connection, merged)
  const located = merged.flatMap((counter) => {
    const row = counter.row?.counter ?? created.get(keyText(counter.entry))
    return row ? { ...counter, id: row.id, version: row.version } : []
  })
  const revision = created.size > 0 ? 1 + (await readValue(connection, FIRST_REVISION)) : 0
  // Where there are several slots, what is added goes to the first one.
  const slots = located.flatMap(({ entry, row, definition, value, id, version }) => {
    const { createdAt = now, updatedAt = now } = entry.type === 'counter' ? entry : { updatedAt: null }
    const added = BigInt(value) - BigInt(row?.value ?? 0)
    const times = `${instant(createdAt)}, ${orNull(updatedAt, instant)}`
    const first = `(${integer(id)}, 0, ${integer(version)}, ${added}, ${integer(revision)}, ${times})`
    const others = row || !definition ? 0 : definition.slots - 1
    const empty = (_: unknown, index: number) =>
      `(${integer(id)}, ${index + 1}, ${integer(version)}, 0, 0, null, null)`
    return [first, ...Array.from({ length: others }, empty)]
  })
  await connection.query(
    `insert into counter_value (counter_id, slot, version, value, revision, created_at, updated_at)
values ${slots.join(', ')}
on duplicate key update
       revision = revision + 1,
       value = value + values(value),
       updated_at = greatest(coalesce(updated_at, values(updated_at)), coalesce(values(updated_at), updated_at))`,
  )
  const history = located.flatMap(({ id, totals }) =>
    totals.map(
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
  await copyRows(connection, located, now, PAST_LEADERBOARDS)
}

/** Gives present counters their new definitions, and closes the running periods of those that get totals. */
async function closeOrRedefine(
  { connection, now }: ImportContext,
  merged: readonly MergedCounter[],
): Promise<void> {
  const closed: number[] = []
  const statements: string[] = []
  for (const { entry, row, salt, isCleared, totals, ...written } of merged) {
    if (!row) continue
    const id = integer(row.counter.id)
    // Processes that have cached the counter notice a new salt by the version of its definition.
    const definition = written.definition ?? (salt && row.definition)
    if (definition) {
      const createdAt = entry.type === 'counter' ? entry.createdAt : undefined
      const at = row.exists ? now : (createdAt ?? now)
      statements.push(...redefine(row.counter, definition, at))
      if (salt) statements.push(`update counter set subject_salt = ${hex(salt)} where id = ${id}`)
      if (isCleared) statements.push(`delete from counter_history where counter_id = ${id}`)
    } else if (totals.length > 0) closed.push(row.counter.id)
  }
  if (closed.length > 0)
    statements.push(
      ...PERIODS.map((period) => closePeriods(closed, period)),
      `update counter_value force index (primary)
   set ${NO_PERIODS}
 where counter_id in (${list(closed, integer)})`,
    )
  for (const statement of statements) await connection.query(statement)
}

/** Creates the rows in `counter` that don't exist. Returns them by their keys' texts. */
async function createCounters(connection: Connection, merged: readonly MergedCounter[]) {
  const missing = merged.filter(({ row }) => !row)
  if (missing.length === 0) return new Map<string, CounterRow>()
  const columns = missing.flatMap(({ entry, namespaceId, definition, salt = createSalt() }) => {
    if (!definition) return []
    const row = { namespace_id: integer(namespaceId), name: bytes(entry.name), version: firstVersion() }
    return { ...row, subject_salt: hex(salt), ...definitionColumns(definition) }
  })
  await connection.query(
    `insert into counter (${Object.keys(columns[0] ?? {}).join(', ')})
     values ${list(columns, (row) => `(${Object.values(row).join(', ')})`)}`,
  )
  const entries = missing.map(({ entry }) => entry)
  return readCounterRows(connection, entries)
}
