// What holds cost: beside increments, beside many open and expired ones, and beside a transaction for each.
import { randomUUID } from 'node:crypto'
import { type Connection, createConnection, type RowDataPacket } from 'mysql2/promise'
import { drive } from './drive.ts'
import { bytesOf, idleTimeOf, type Operation } from './load.ts'
import type { Options } from './options.ts'
import { exactTimeOf, startProgram } from './processes.ts'
import { medianOf, tableOf } from './report.ts'
import { type Progress, withResources } from './resources.ts'
import { type Running, running, startNth } from './systems.ts'
import { numbered } from './workloads.ts'

/** One start differs from the next by up to a quarter. */
const STARTS = 5
const CONNECTIONS = 64
const CALLS = 4000
/** It is slow. */
const PEER_CALLS = 1000
const MANY = 100_000
const EXPIRED = 10_000
const PEER = 'bench_holds'
const THOUSAND = numbered('one', 1000)

// As compiled operations are: with no variables within values.
const HOLD = 'mutation($changes: [CounterDeltaInput!]!) { hold(changes: $changes, ttlSeconds: 86400) { id } }'
const KEYED_HOLD =
  'mutation($changes: [CounterDeltaInput!]!, $key: String!) { hold(changes: $changes, ttlSeconds: 86400, idempotencyKey: $key) { id } }'
const KEYED_INCREMENT =
  'mutation($name: String!, $key: String!) { increment(name: $name, idempotencyKey: $key) { value } }'
const CONFIRM = 'mutation($id: ID!) { confirmHold(id: $id) { value } }'
const DEFINE =
  'mutation($name: String!) { defineCounter(name: $name, definition: { maxValue: 1000000000 }) { id } }'

/** What is measured, and what of it is compared with another side. */
interface Side {
  title: string
  query: string
  /** By default, a new one each time, with ten open holds. */
  names?: readonly string[]
  /** How many open holds the counter has. */
  open?: number
  isPeer?: true
  /** Whether another process made the holds that are confirmed. */
  isElsewhere?: true
  /** The side before it that it is compared with, and whether by its rate. The bar is the most, or for a rate the least. */
  beside?: { index: number; bar: number; isRate?: true }
}

const SIDES: readonly Side[] = [
  { title: '`increment` with a key', query: KEYED_INCREMENT, open: 0 },
  { title: '`hold`', query: HOLD, beside: { index: 0, bar: 1.6 } },
  {
    title: 'textbook, one counter',
    query: HOLD,
    names: ['hot'],
    isPeer: true,
    beside: { index: 1, bar: 4, isRate: true },
  },
  { title: '`hold` with a key', query: KEYED_HOLD, beside: { index: 0, bar: 1.6 } },
  { title: '`confirmHold`', query: CONFIRM, beside: { index: 0, bar: 1.6 } },
  {
    title: '`confirmHold` of another process',
    query: CONFIRM,
    isElsewhere: true,
    beside: { index: 0, bar: 1.6 },
  },
  { title: `\`hold\` beside ${MANY} open ones`, query: HOLD, open: MANY, beside: { index: 1, bar: 1.1 } },
  { title: '`hold` of 1 000 counters', query: HOLD, names: THOUSAND },
  {
    title: 'textbook, 1 000 counters',
    query: HOLD,
    names: THOUSAND,
    isPeer: true,
    beside: { index: 7, bar: 1, isRate: true },
  },
]

interface Cost {
  rate: number
  nodeUs: number
  databaseUs: number
}

/**
 * Measures holds start by start, each round in turn, and what a flush does that meets expired ones.
 *
 * @returns Markdown
 * @throws {Error} at the first wrong answer or number
 */
export function holds({ rounds, ...options }: Options & Progress): Promise<string> {
  const { say, signal } = options
  return withResources(options, async (resources) => {
    const target = await resources.database()
    const store = await resources.databaseProcess()
    const connection = await createConnection(target)
    resources.keep({ end: () => connection.end() })
    const costs = SIDES.map((): Cost[] => [])
    const expired: Expired[] = []
    for (let start = 1; start <= STARTS; start++) {
      const nth = resources.keep(await startNth(target, { NTH_LOG_LEVEL: 'error' }))
      const other = resources.keep(await startNth(target, { NTH_LOG_LEVEL: 'error' }))
      const program = startProgram('holdsPeer.ts', [JSON.stringify({ ...target, database: PEER })])
      const peer = resources.keep(await running(program))
      if (start === 1) await prepare(nth, connection)
      // The first round only warms up.
      for (let round = 0; round <= rounds; round++)
        for (const side of start % 2 === 1 ? SIDES : SIDES.toReversed()) {
          signal.throwIfAborted()
          const name = `${SIDES.indexOf(side)}-${start}-${round}`
          const cost = await costOf(side, side.isPeer ? peer : nth, other, store, name, connection)
          if (round > 0) costs[SIDES.indexOf(side)]?.push(cost)
          say(
            `start ${start}, round ${round}, ${side.title}: ${usOf(cost).toFixed(1)} µs, ${cost.rate.toFixed(0)}/s`,
          )
        }
      expired.push(await meetExpired(nth, store, `expired-${start}`, connection))
      say(`start ${start}, flushes in ms: ${JSON.stringify(expired.at(-1))}`)
      await Promise.all([nth.end(), other.end(), peer.end()])
    }
    const medianIn = (index: number, figure: (cost: Cost) => number) =>
      medianOf((costs[index] ?? []).map(figure))
    const rows = SIDES.map(({ title, beside }, index) => [
      title,
      medianIn(index, ({ rate }) => rate).toFixed(0),
      medianIn(index, ({ nodeUs }) => nodeUs).toFixed(1),
      medianIn(index, ({ databaseUs }) => databaseUs).toFixed(1),
      beside ? besideText(beside, costs[index] ?? [], costs[beside.index] ?? []) : '',
    ])
    return [
      '# Holds',
      `${CONNECTIONS} connections: medians of ${STARTS} starts of ${rounds} rounds of ${CALLS} calls, ${PEER_CALLS} of the textbook. Processor time of a call in µs. Ratios are medians of those of each round, with the lowest and the highest: of processor time, or of Nth's rate to that of the textbook.`,
      tableOf(['', 'calls/s', 'node', 'database', 'ratio (bar)'], rows),
      `A flush that meets ${EXPIRED} expired holds: ${expired.map(({ meetingMs }) => meetingMs.toFixed(1)).join(', ')} ms of the database's processor time, median ${medianOf(expired.map(({ meetingMs }) => meetingMs)).toFixed(1)} (at most 20); the next one ${medianOf(expired.map(({ nextMs }) => nextMs)).toFixed(1)}. ${[...new Set(expired.map(({ plan }) => plan))].join(' or ')}. The next one reads no holds.`,
      '',
    ].join('\n\n')
  })
}

const usOf = ({ nodeUs, databaseUs }: Cost) => nodeUs + databaseUs

function besideText({ bar, isRate }: NonNullable<Side['beside']>, costs: Cost[], others: Cost[]): string {
  const ratios = costs.map((cost, round) => {
    const other = others[round] ?? cost
    return isRate ? other.rate / cost.rate : usOf(cost) / usOf(other)
  })
  const [low, high] = [Math.min(...ratios), Math.max(...ratios)].map((ratio) => ratio.toFixed(2))
  return `${medianOf(ratios).toFixed(2)} (${low} – ${high}; ${isRate ? 'at least' : 'at most'} ${bar})`
}

/** Sends all requests over the connections. Returns the IDs of the holds that were made. */
async function send(url: URL, operations: readonly Operation[]): Promise<string[]> {
  const requests = operations.map((operation) => bytesOf(operation, url)).values()
  const ids: string[] = []
  let bytes: Buffer = Buffer.alloc(0)
  const take = (body: string) => {
    const { data, errors } = JSON.parse(body)
    if (errors) throw new Error(`It answered with ${body}`)
    if (data.hold) ids.push(data.hold.id)
  }
  const request = { changes: 1, take, bytes: () => bytes }
  const next = () => {
    const { value } = requests.next()
    bytes = value ?? bytes
    return value && request
  }
  await drive({ url, connections: CONNECTIONS, next })
  return ids
}

const urlOf = ({ urls }: Running) => new URL(urls[0] as string)
const on = (query: string, names: readonly string[]) =>
  names.map((name) => ({ query, variables: query === DEFINE ? { name } : { changes: [{ name }] } }))

/** Makes the counters that all starts use. */
async function prepare(nth: Running, connection: Connection): Promise<void> {
  await send(urlOf(nth), on(DEFINE, THOUSAND))
  await send(urlOf(nth), on(HOLD, THOUSAND))
  await connection.query(`insert into ${PEER}.counter (name) values ?`, [
    ['hot', ...THOUSAND].map((name) => [name]),
  ])
}

/** Measures the calls of a round, and checks that all of them were counted or are held. */
async function costOf(
  { query, names, open = 10, isPeer, isElsewhere }: Side,
  system: Running,
  other: Running,
  store: number,
  newName: string,
  connection: Connection,
): Promise<Cost> {
  const url = urlOf(system)
  if (!names) {
    await send(url, on(DEFINE, [newName]))
    await send(url, on(HOLD, Array(Math.min(open, 10)).fill(newName)))
    if (open > 10) await insertHolds(connection, newName, open, 80_000_000)
  }
  const allNames = names ?? [newName]
  const nameAt = (index: number) => allNames[(index * 7919) % allNames.length] ?? ''
  const calls = isPeer ? PEER_CALLS : CALLS
  const called = Array.from({ length: calls }, (_, index) => nameAt(index))
  const ids = query === CONFIRM ? await send(isElsewhere ? urlOf(other) : url, on(HOLD, called)) : []
  const operations = called.map((name, index): Operation => {
    if (query === CONFIRM) return { query, variables: { id: ids[index] } }
    const key = query === HOLD ? {} : { key: randomUUID() }
    const variables = query === KEYED_INCREMENT ? { name, ...key } : { changes: [{ name }], ...key }
    return { query, variables }
  })
  const sum = isPeer
    ? `sum(value + held) as sum from ${PEER}.counter`
    : 'sum(value + held_up) as sum from counter_value'
  const sumNow = async () => Number((await connection.query<RowDataPacket[]>(`select ${sum}`))[0][0]?.sum)
  const sumBefore = await sumNow()
  await idleTimeOf(store)
  const before = [exactTimeOf(system.pid), exactTimeOf(store)] as const
  const sentAt = performance.now()
  await send(url, operations)
  const seconds = (performance.now() - sentAt) / 1000
  const nodeUs = (1e6 * (exactTimeOf(system.pid) - before[0])) / calls
  await idleTimeOf(store)
  const databaseUs = (1e6 * (exactTimeOf(store) - before[1])) / calls
  const added = (await sumNow()) - sumBefore
  if (added !== (query === CONFIRM ? 0 : calls)) throw new Error(`${calls} calls added ${added}: ${query}`)
  return { rate: calls / seconds, nodeUs, databaseUs }
}

/** Inserts holds of a counter that end one after another, the first so many milliseconds from now. */
async function insertHolds(
  connection: Connection,
  name: string,
  count: number,
  fromMs: number,
): Promise<void> {
  const now = "(timestampdiff(microsecond, '1970-01-01', utc_timestamp(3)) div 1000)"
  await connection.query(
    `insert into hold (token, counter_id, amount, open_until, expires_at, latest)
     select unhex(md5(concat(c.name, seq))), c.id, 1, ${now} + ${fromMs} + seq, ${now} + ${fromMs} + seq, ${now} + 86400000
       from counter c join seq_1_to_${count}
      where c.name = ?`,
    [name],
  )
  await connection.query(
    `update counter_value v join counter c on c.id = v.counter_id
        set held_up = held_up + ${count},
            held_at = ${now} + least(${fromMs}, 0),
            first_expiry = (select min(open_until) from hold h where h.counter_id = c.id)
      where c.name = ?`,
    [name],
  )
}

/** Processor time of the database, and how it reads what has expired. */
interface Expired {
  meetingMs: number
  nextMs: number
  plan: string
}

async function meetExpired(
  nth: Running,
  store: number,
  name: string,
  connection: Connection,
): Promise<Expired> {
  const make = async (counter: string) => {
    await send(urlOf(nth), on(DEFINE, [counter]))
    await send(urlOf(nth), on(HOLD, [counter]))
    await insertHolds(connection, counter, EXPIRED, -2 * EXPIRED)
    await idleTimeOf(store)
  }
  const timed = async () => {
    const before = exactTimeOf(store)
    await send(urlOf(nth), on(HOLD, [name]))
    return 1000 * (exactTimeOf(store) - before)
  }
  await make(name)
  const [meetingMs, nextMs] = [await timed(), await timed()]
  // Again, with the statements that are sent.
  await make(`${name}-logged`)
  const reads = async () => {
    await connection.query('truncate mysql.general_log')
    await connection.query("set global log_output = 'TABLE', global general_log = 1")
    await send(urlOf(nth), on(HOLD, [`${name}-logged`]))
    await connection.query('set global general_log = 0')
    const [rows] = await connection.query<RowDataPacket[]>(
      "select convert(argument using utf8mb4) as text from mysql.general_log where argument like '%from hold%' and thread_id <> connection_id()",
    )
    return rows.map(({ text }): string => text)
  }
  const [first, next] = [await reads(), await reads()]
  if (first.length !== 1 || next.length > 0) throw new Error(`Flushes read holds: ${first}, then ${next}`)
  const [plan] = await connection.query<RowDataPacket[]>(`explain ${first[0]}`)
  return {
    meetingMs,
    nextMs,
    plan: plan.map(({ table, type, key, Extra }) => `${table} ${type} ${key}: ${Extra}`).join(', '),
  }
}
