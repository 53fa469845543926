import type { ResultSetHeader, RowDataPacket } from 'mysql2'
import {
  type CounterKey,
  type CounterPage,
  type CounterState,
  type CounterStore,
  keyText,
} from '../core/counters.ts'
import { BEGINNING, type CountingRow } from './counting.ts'
import type { Connection, Database } from './database.ts'
import { findIdentity, type Identity, namespaceId, openRows } from './ids.ts'
import { bytes, integer } from './literals.ts'
import { selectByParent } from './selecting.ts'

export function openCounterStore(database: Database): CounterStore<CountingRow> {
  return {
    rows: openRows(database, {
      table: 'counter_value',
      textOf: keyText,
      find: findCounter,
      make: makeCounter,
    }),
    read: (keys) => database.repeatable((connection) => readCounters(connection, keys)),
    list: (namespace, page) => database.repeatable((connection) => listCounters(connection, namespace, page)),
  }
}

/** The condition that names a counter's row of all time, in statements that call the tables c and v. */
const JOIN_ALL_TIME = `v.counter_id = c.id and v.period = 0 and v.starts_at = ${BEGINNING} and v.slot = 0`

function findCounter(connection: Connection, { namespace, name }: CounterKey): Promise<Identity | undefined> {
  return findIdentity(
    connection,
    `select c.id, c.version
       from namespace n
       join counter c on c.namespace_id = n.id
      where n.name = ${bytes(namespace)} and c.name = ${bytes(name)}`,
  )
}

/** Makes a counter together with its row of all time, which readers don't see before it has counted. */
async function makeCounter(connection: Connection, { namespace, name }: CounterKey): Promise<void> {
  const namespace_id = await namespaceId(connection, namespace)
  const [counter] = await connection.query<ResultSetHeader>(
    `insert into counter (namespace_id, name) values (${integer(namespace_id)}, ${bytes(name)})`,
  )
  await connection.query(
    `insert into counter_value (counter_id, period, starts_at, slot, version)
     values (${integer(counter.insertId)}, 0, ${BEGINNING}, 0, 1)`,
  )
}

async function readCounters(connection: Connection, keys: readonly CounterKey[]): Promise<CounterState[]> {
  const [rows] = await connection.query<RowDataPacket[]>(
    selectByParent(
      keys,
      ({ namespace }) => namespace,
      (siblings) =>
        `select n.name as namespace, c.name, v.value, v.created_at, v.updated_at
           from namespace n
           join counter c on c.namespace_id = n.id
           join counter_value v on ${JOIN_ALL_TIME}
          where n.name = ${bytes(siblings[0].namespace)}
            and c.name in (${siblings.map(({ name }) => bytes(name)).join(', ')})
            and v.revision > 0`,
    ),
  )
  return rows.map(toState)
}

async function listCounters(
  connection: Connection,
  namespace: string,
  { prefix, after, before, limit, fromEnd }: CounterPage,
): Promise<CounterState[]> {
  const conditions = [`n.name = ${bytes(namespace)}`, 'v.revision > 0']
  if (prefix !== '') conditions.push(`c.name >= ${bytes(prefix)}`, `c.name < ${pastPrefix(prefix)}`)
  if (after !== undefined) conditions.push(`c.name > ${bytes(after)}`)
  if (before !== undefined) conditions.push(`c.name < ${bytes(before)}`)
  const [rows] = await connection.query<RowDataPacket[]>(
    `select n.name as namespace, c.name, v.value, v.created_at, v.updated_at
       from namespace n
       join counter c on c.namespace_id = n.id
       join counter_value v on ${JOIN_ALL_TIME}
      where ${conditions.join(' and ')}
      order by c.name ${fromEnd ? 'desc' : 'asc'}
      limit ${integer(limit)}`,
  )
  return rows.map(toState)
}

/** The first text after all that begin with `prefix`. No byte of UTF-8 is 255, so the last one can be raised. */
function pastPrefix(prefix: string): string {
  const end = Buffer.from(prefix, 'utf8')
  end[end.length - 1] = (end[end.length - 1] ?? 0) + 1
  return `x'${end.toString('hex')}'`
}

function toState(row: RowDataPacket): CounterState {
  return {
    namespace: row.namespace.toString('utf8'),
    name: row.name.toString('utf8'),
    value: row.value,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}
