import type { Connection } from '../mysql/connection.ts'
import { type Database, joined } from '../mysql/pool.ts'
import { bytes, listByName, MARK, pageByName, selectByName } from '../mysql/sql.ts'
import {
  type CounterKey,
  type CounterState,
  type Definition,
  keyText,
  type PageByName,
  unwritten,
} from '../rules/counter.ts'
import type { CounterRow } from '../rules/rows.ts'
import { batchLookups, type Lookup, type RowCache } from './batches.ts'
import { COUNTER_EXISTS, HELD, heldIn, JOIN_VALUE, STATE, type StateRow, stateIn } from './columns.ts'
import { counterRowIn, IDENTITY, type IdentifiedRow } from './counterRows.ts'

/** Opens the reads of counters: a name never written has the value 0. All reads of an event loop tick go together. */
export function openCounterReads(database: Database, cache: RowCache<CounterKey, CounterRow>) {
  const readsOf = <State extends CounterValue>(columns: CounterColumns<State>) =>
    batchLookups(
      keyText,
      joined(database, (connection, lookups: readonly CounterLookup<State>[]) =>
        readCounters(connection, lookups, cache, columns),
      ),
    )
  return {
    ...readsOf(WHOLE),
    /** The same reads without revisions and times, which may be missing. */
    values: readsOf(VALUE_ONLY),
  }
}

const FROM_NAMES = `from namespace n
           join counter c on c.namespace_id = n.id`

const FROM_COUNTERS = `${FROM_NAMES}
           join counter_value v on ${JOIN_VALUE}`

/** In a union with `0` or null, an unsigned column would become a decimal, which the driver returns as a text. */
const UNSIGNED = 'cast(0 as unsigned)'

/** An extra row without a name, with the mark: the revision of counters without a row. */
const READ_MARK = `select null, null, null, null, null, null, null, null, ${MARK}, null, null, null, ${UNSIGNED}, ${UNSIGNED}, ${UNSIGNED}, null, ${UNSIGNED}`

type MarkRow = { name: null; revision: number | string }

/** The state of a counter, of which all but the value and the definition may be missing. */
export interface CounterValue
  extends Pick<CounterState, 'namespace' | 'name' | 'value' | 'definition'>,
    Partial<Pick<CounterState, 'createdAt' | 'updatedAt' | 'held' | 'heldDown'>> {
  revision?: number | undefined
}

type RowById = Pick<StateRow, 'value' | 'revision' | 'created_at' | 'updated_at'> &
  Partial<Pick<StateRow, 'held'>> &
  Record<'id' | 'version', number>

type CounterLookup<State> = Lookup<CounterKey, State | CounterState>

/** What is read of a counter whose row is cached: more columns, and its state from them. */
interface CounterColumns<State extends CounterValue> {
  columns: string
  stateOf(key: CounterKey, definition: Definition, row: RowById): State
}

const VALUE_ONLY: CounterColumns<CounterValue> = {
  columns: '',
  stateOf: ({ namespace, name }, definition, { value }) => ({
    namespace,
    name,
    value: Number(value),
    definition,
  }),
}

const WHOLE: CounterColumns<CounterState> = {
  columns: ', revision, created_at, updated_at',
  stateOf: ({ namespace, name }, definition, row) => ({
    namespace,
    name,
    value: Number(row.value),
    definition,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    revision: Number(row.revision),
    ...heldIn(row),
  }),
}

/**
 * Reads counters: by their ids, if their rows are cached, and the others by their names. A cached row is outdated if its
 * version is: a deletion removes the row with that version, a new definition and a failover that reuses its id change it.
 */
async function readCounters<State extends CounterValue>(
  connection: Connection,
  lookups: readonly CounterLookup<State>[],
  cache: RowCache<CounterKey, CounterRow>,
  { columns, stateOf }: CounterColumns<State>,
): Promise<void> {
  const cachedRows = lookups.map((lookup) => {
    // An attempt before may have read it from a server that is gone.
    lookup.state = undefined
    return cache.peek(lookup.text)
  })
  // The subquery costs every read some of its time.
  const hasHolds = columns !== '' && cachedRows.some((row) => row?.definition.hasHolds)
  const indexes = new Map<number, number>()
  let ids = ''
  for (const [index, row] of cachedRows.entries()) {
    // Of a counter with slots, all rows are summed.
    if (row?.definition.slots !== 1) continue
    indexes.set(row.id, index)
    ids += `,${row.id}`
  }
  if (indexes.size > 0) {
    const rows = await connection.select<RowById>(
      `select counter_id as id, version, value${columns}${hasHolds ? `, ${HELD}` : ''}
       from counter_value v force index (primary)
      where counter_id in (${ids.slice(1)}) and slot = 0 and created_at is not null`,
    )
    for (const row of rows) {
      const index = indexes.get(row.id)
      if (index === undefined) continue
      const [lookup, cached] = [lookups[index], cachedRows[index]]
      if (lookup && cached?.version === row.version)
        lookup.state = stateOf(lookup.key, cached.definition, row)
    }
  }
  const others = lookups.filter(({ state }) => state === undefined)
  if (others.length > 0) await readByName(connection, others, cache)
}

/** Reads counters by their names, and caches their rows. */
async function readByName(
  connection: Connection,
  lookups: readonly CounterLookup<CounterValue>[],
  cache: RowCache<CounterKey, CounterRow>,
): Promise<void> {
  const { incarnation } = cache
  const statement = selectByName(
    lookups.map(({ key }) => key),
    'c.name',
    (isNamed) => `select ${STATE}, ${IDENTITY} ${FROM_COUNTERS} where ${isNamed}`,
  )
  const rows = await connection.select<(StateRow & IdentifiedRow) | MarkRow>(
    `${statement}\nunion all\n${READ_MARK}`,
  )
  const states = new Map<string, CounterState>()
  let mark = 0
  for (const row of rows) {
    if (row.name === null) mark = Number(row.revision)
    else {
      const state = stateIn(row)
      const text = keyText(state)
      states.set(text, state)
      cache.add(text, counterRowIn(row, incarnation))
    }
  }
  for (const lookup of lookups) lookup.state = states.get(lookup.text) ?? unwritten(lookup.key, mark)
}

/** Lists counters by name. */
export async function listCounters(connection: Connection, namespace: string, page: PageByName) {
  const conditions = [`n.name = ${bytes(namespace)}`]
  const names = { column: 'c.name', from: FROM_NAMES, conditions }
  return listByName(connection, names, page, async (page) => {
    const rest = pageByName('c.name', page, [...conditions, COUNTER_EXISTS])
    const rows = await connection.select<StateRow>(`select ${STATE} ${FROM_COUNTERS} ${rest}`)
    return rows.map(stateIn)
  })
}
