import type { RowDataPacket } from 'mysql2'
import type { PageByName } from '../../core/counters/pages.ts'
import { type CounterKey, type CounterState, keyText, unwritten } from '../../core/counters/state.ts'
import type { CounterStore } from '../../core/counters/store.ts'
import type { Connection, Database } from '../connections/database.ts'
import type { FailoverDetector } from '../connections/failover.ts'
import { bytes, integer } from '../literals.ts'
import { firstVersion, REVISION_OF_NOW } from '../revisions.ts'
import { openNamespace, openRows } from '../rowCache.ts'
import { onPage, pageOf, selectByParent } from '../select.ts'
import { DEFINITION, definitionIn, IS_WRITTEN, JOIN_ALL_TIME, STATE, stateIn } from './columns.ts'
import { readHistory } from './history.ts'
import { listLeaderboard } from './leaderboard.ts'
import type { LeaderboardSync } from './leaderboardSync.ts'
import { BEGINNING, type CounterRecord, counterRecord } from './update.ts'

export function openCounterStore(
  database: Database,
  failover: FailoverDetector,
  sync: LeaderboardSync,
): CounterStore {
  return {
    rows: openRows(database, failover, {
      textOf: keyText,
      find: findCounters,
      make: createCounters,
    }),
    read: (keys) => database.withRetry((connection) => readCounters(connection, keys)),
    list: (namespace, page) => database.withRetry((connection) => listCounters(connection, namespace, page)),
    async listLeaderboard(namespace, page) {
      const deadline = database.deadline()
      await sync.refresh()
      return database.withRetry((connection) => listLeaderboard(connection, namespace, page), deadline)
    },
    readHistory: (stretches) => database.withRetry((connection) => readHistory(connection, stretches)),
  }
}

async function findCounters(
  connection: Connection,
  keys: readonly CounterKey[],
  incarnation: number,
): Promise<Map<string, CounterRecord>> {
  const [rows] = await connection.query<RowDataPacket[]>(
    selectByParent(
      keys,
      ({ namespace }) => namespace,
      (siblings) =>
        `select n.name as namespace, c.name, c.id, c.version, ${DEFINITION}
           from namespace n
           join counter c on c.namespace_id = n.id
          where n.name = ${bytes(siblings[0].namespace)}
            and c.name in (${siblings.map(({ name }) => bytes(name)).join(', ')})`,
    ),
  )
  return new Map(
    rows.map((row) => [
      keyText({ namespace: row.namespace.toString('utf8'), name: row.name.toString('utf8') }),
      counterRecord({ id: row.id, version: row.version, incarnation }, definitionIn(row)),
    ]),
  )
}

/** Creates counters with their all-time rows. Readers don't see them before their first change or definition. */
async function createCounters(connection: Connection, keys: readonly CounterKey[]): Promise<void> {
  for (const namespace of new Set(keys.map(({ namespace }) => namespace))) {
    const names = keys.filter((key) => key.namespace === namespace).map(({ name }) => bytes(name))
    const opened = await openNamespace(connection, namespace)
    const id = integer(opened.id)
    const retention = `x'${opened.time_zone.toString('hex')}', x'${opened.periods.toString('hex')}'`
    await connection.query(
      `insert into counter (namespace_id, name, version, time_zone, periods)
       values ${names.map((name) => `(${id}, ${name}, ${integer(firstVersion())}, ${retention})`).join(', ')}`,
    )
    await connection.query(
      `insert into counter_value (counter_id, period, starts_at, slot, version, revision)
       select id, 0, ${BEGINNING}, 0, version, ${REVISION_OF_NOW}
         from counter
        where namespace_id = ${id} and name in (${names.join(', ')})`,
    )
  }
}

/** An extra row without a name, with the current time: the revision of counters without a row. */
const READ_TIME = `select null, null, null, null, null, null, null, null, cast(${REVISION_OF_NOW} as unsigned), null, null`

async function readCounters(connection: Connection, keys: readonly CounterKey[]): Promise<CounterState[]> {
  const select = selectByParent(
    keys,
    ({ namespace }) => namespace,
    (siblings) =>
      `select ${STATE}
           from namespace n
           join counter c on c.namespace_id = n.id
           join counter_value v on ${JOIN_ALL_TIME}
          where n.name = ${bytes(siblings[0].namespace)}
            and c.name in (${siblings.map(({ name }) => bytes(name)).join(', ')})`,
  )
  const [rows] = await connection.query<RowDataPacket[]>(`${select}\nunion all\n${READ_TIME}`)
  const [time] = rows.splice(
    rows.findLastIndex(({ name }) => name === null),
    1,
  )
  const found = rows.map(stateIn)
  if (found.length === keys.length) return found
  const foundKeys = new Set(found.map(keyText))
  const now = Number(time?.revision)
  const missing = keys.filter((key) => !foundKeys.has(keyText(key)))
  return [...found, ...missing.map((key) => unwritten(key, now))]
}

async function listCounters(
  connection: Connection,
  namespace: string,
  page: PageByName,
): Promise<CounterState[]> {
  const conditions = [`n.name = ${bytes(namespace)}`, IS_WRITTEN, ...onPage('c.name', page)]
  const [rows] = await connection.query<RowDataPacket[]>(
    `select ${STATE}
       from namespace n
       join counter c on c.namespace_id = n.id
       join counter_value v on ${JOIN_ALL_TIME}
      where ${conditions.join(' and ')}
      ${pageOf('c.name', page)}`,
  )
  return rows.map(stateIn)
}
