import {
  COUNTER_EXISTS,
  DEFINITION,
  type DefinitionRow,
  definitionIn,
  JOIN_VALUE,
  PERIOD_CODES,
  STATE,
  type StateRow,
  stateIn,
} from '../commit/periodStatements.ts'
import {
  type CounterKey,
  type CounterState,
  keyText,
  type LeaderboardEntry,
  type LeaderboardPage,
  type PageByName,
  unwritten,
} from '../core/counters/state.ts'
import type { FailoverDetector } from '../mysql/connections/failover.ts'
import { COLUMNS, openedColumns, startSecond } from '../mysql/counters/periods.ts'
import { groupBy } from '../mysql/groupBy.ts'
import { bytes, integer, list } from '../mysql/literals.ts'
import { type Connection, type Database, retried } from '../mysql/pool.ts'
import { firstVersion, REVISION_OF_NOW } from '../mysql/revisions.ts'
import { type NamedRow, nameIn, pageBy, select, selectByName } from '../mysql/sql.ts'
import { joinNames } from '../rules/names.ts'
import { runningAt } from '../rules/periods.ts'
import type { CounterRow } from '../rules/rows.ts'
import { createRowCache } from './batches.ts'
import type { HistoryRow, HistoryStretch } from './history.ts'
import { type LeaderboardSync, listLeaderboard } from './leaderboard.ts'
import { findOrCreateNamespace, retentionOf } from './namespaces.ts'

export type CounterStore = ReturnType<typeof openCounterStore>

export function openCounterStore(database: Database, failover: FailoverDetector, sync: LeaderboardSync) {
  return {
    rows: createRowCache(database, failover, { textOf: keyText, read: readRows, create: createCounters }),
    /** Reads counters, including those never written or defined, in any order, with one statement. */
    read: retried(database, readCounters),
    list: retried(database, listCounters),

    /** At most a second behind. It includes all changes made by this process. */
    async listLeaderboard(namespace: string, page: LeaderboardPage): Promise<LeaderboardEntry[]> {
      const deadline = database.deadline()
      await sync.refresh()
      return database.withRetry((connection) => listLeaderboard(connection, namespace, page), deadline)
    },

    /** Reads the totals of the periods that start in some time ranges, with one statement. */
    readHistory: retried(database, readHistory),
  }
}

type IdentifiedRow = DefinitionRow & NamedRow & Record<'id' | 'version', number>

async function readRows(connection: Connection, keys: readonly CounterKey[], incarnation: number) {
  const statement = selectByName(
    keys,
    'c.name',
    (isNamed) =>
      `select n.name as namespace, c.name, c.id, c.version, ${DEFINITION}
         from namespace n
         join counter c on c.namespace_id = n.id
        where ${isNamed}`,
  )
  const rows = await select<IdentifiedRow>(connection, statement)
  return new Map<string, CounterRow>(
    rows.map((row) => {
      const { id, version } = row
      const key = `counter ${id} ${version}`
      const definition = definitionIn(row)
      const changedAt = Number.NEGATIVE_INFINITY
      return [keyText(nameIn(row)), { kind: 'counter', key, id, version, incarnation, definition, changedAt }]
    }),
  )
}

/** Creates counters with their rows. Readers don't see them before their first change or definition. */
async function createCounters(connection: Connection, keys: readonly CounterKey[], at: Date): Promise<void> {
  for (const [namespace, siblings] of groupBy(keys, (key) => key.namespace)) {
    const { id, time_zone, periods } = await findOrCreateNamespace(connection, namespace)
    const rest = `${bytes(time_zone)}, ${bytes(periods)}`
    await connection.query(
      `insert into counter (namespace_id, name, version, time_zone, periods)
       values ${list(siblings, ({ name }) => `(${integer(id)}, ${bytes(name)}, ${integer(firstVersion())}, ${rest})`)}`,
    )
    // Where the first change happens in the same periods, its statement finds them running.
    const opened = openedColumns(runningAt(retentionOf(time_zone, periods), at.getTime()))
    await connection.query(
      `insert into counter_value (counter_id, slot, version, revision${opened.names})
       select id, 0, version, ${REVISION_OF_NOW}${opened.values}
         from counter
        where namespace_id = ${integer(id)} and name in (${list(siblings, ({ name }) => bytes(name))})`,
    )
  }
}

const SELECT_COUNTERS = `select ${STATE}
           from namespace n
           join counter c on c.namespace_id = n.id
           join counter_value v on ${JOIN_VALUE}`

/** An extra row without a name, with the current time: the revision of counters without a row. */
const READ_TIME = `select null, null, null, null, null, null, null, null, cast(${REVISION_OF_NOW} as unsigned), null, null`

type TimeRow = { name: null; revision: number | string }

async function readCounters(connection: Connection, keys: readonly CounterKey[]): Promise<CounterState[]> {
  const statement = selectByName(keys, 'c.name', (isNamed) => `${SELECT_COUNTERS} where ${isNamed}`)
  const rows = await select<StateRow | TimeRow>(connection, `${statement}\nunion all\n${READ_TIME}`)
  const found = rows.filter((row) => row.name !== null).map(stateIn)
  if (found.length === keys.length) return found
  const foundKeys = new Set(found.map(keyText))
  const now = Number(rows.find((row) => row.name === null)?.revision)
  const missing = keys.filter((key) => !foundKeys.has(keyText(key)))
  return [...found, ...missing.map((key) => unwritten(key, now))]
}

async function listCounters(connection: Connection, namespace: string, page: PageByName) {
  const conditions = [`n.name = ${bytes(namespace)}`, COUNTER_EXISTS]
  const rows = await select<StateRow>(connection, `${SELECT_COUNTERS} ${pageBy('c.name', page, conditions)}`)
  return rows.map(stateIn)
}

/**
 * Reads the totals of the periods that begin within stretches of time: from the history, and from the columns of values.
 * In one statement: between two, a period could move from the columns to the history.
 */
async function readHistory(
  connection: Connection,
  stretches: readonly HistoryStretch[],
): Promise<HistoryRow[]> {
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
