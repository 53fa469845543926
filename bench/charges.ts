// What the values cost that a request is charged for: a request with the same charge should take about as long.
import { setTimeout as pause } from 'node:timers/promises'
import { type Connection, createConnection } from 'mysql2/promise'
import type { Options } from './options.ts'
import { processorTimeOf, serverProcessOf } from './processes.ts'
import { medianOf, tableOf } from './report.ts'
import { type Progress, withResources } from './resources.ts'
import { startNth } from './systems.ts'
import { numbered } from './workloads.ts'

/** Names in a request. A list has at most 500. */
const SIZES = [1, 100, 500]
const MAX_NAMES = Math.max(...SIZES)
/** How many times a list's a charged value may cost. */
const MAX_RATIO = 20

const NAMES = numbered('counter', MAX_NAMES)
/** Leaderboards are longer than a page. */
const OTHERS = numbered('other', 3500)
/** Past hours and days with a total, as stored: the code of the period, and its seconds. */
const HISTORY = [
  [1, 3600],
  [2, 86_400],
] as const
const PAST_PERIODS = 400

/** Requests for some number of names. */
interface Kind {
  title: string
  documentOf(size: number): string
}

/** Fields of a counter that are charged as more than one value, and one that isn't. */
const FIELDS = [
  ['`value`', 'value'],
  ['`valueIn(DAY)`', 'valueIn(period: DAY)'],
  ['`valueIn(YEAR)`', 'valueIn(period: YEAR)'],
  ['`history(HOUR)` of a day', 'history(period: HOUR, last: 24) { value }'],
  ['`history(DAY)` of one', 'history(period: DAY, last: 1) { value }'],
  ['`history(DAY)` of ten', 'history(period: DAY, last: 10) { start value }'],
  ['`history(WEEK)` of one', 'history(period: WEEK, last: 1) { value }'],
  ['`history(WEEK)` of four', 'history(period: WEEK, last: 4) { value }'],
  ['`place`', 'place'],
  ['`neighbors`', 'neighbors(above: 1, below: 1) { value }'],
  ['`changeOf`', 'changeOf(subject: "s") { value }'],
] as const

const PLAIN =
  'id name value revision minValue maxValue overflow slots createdAt updatedAt timeZone periods { period keepDays }'
const PLAIN_OF_GROUP = 'id name lastValue lastFormatted nextValue nextFormatted revision updatedAt'
const ENTRY = 'edges { rank value node { name } }'

/** A list, which the others are compared with. */
const LIST = listed('a list with all plain fields', PLAIN)
const KINDS: readonly Kind[] = [
  LIST,
  ...FIELDS.map(([title, field]) => listed(title, field)),
  paged('page by name', 'counters(first: $n) { nodes { value } }'),
  paged('leaderboard', `counters(first: $n, orderBy: VALUE_DESC) { ${ENTRY} }`),
  paged('leaderboard of the day', `counters(first: $n, orderBy: VALUE_DESC, period: DAY) { ${ENTRY} }`),
  paged('leaderboard with places', 'counters(first: $n, orderBy: VALUE_DESC) { edges { place } }'),
  pagedGroups('page of groups', 'lastValue'),
  pagedGroups('page of groups with all plain fields', PLAIN_OF_GROUP),
  pagedGroups('`sequence`', 'sequence { name }'),
  pagedGroups('`numbersOf`', 'numbersOf(subject: "s") { value }'),
  ...FIELDS.map(([title, field]) => apart(title, 'counter', field)),
  apart('`createdAt`', 'counter', 'createdAt'),
  apart('`group` with all plain fields', 'group', PLAIN_OF_GROUP),
  apart('`numbersOf`', 'group', 'numbersOf(subject: "s") { value }'),
]

function listed(title: string, fields: string): Kind {
  return { title, documentOf: () => `query ($names: [String!]!) { counters(names: $names) { ${fields} } }` }
}

function paged(title: string, page: string): Kind {
  return { title, documentOf: () => `query ($n: Int!) { namespace { ${page} } }` }
}

function pagedGroups(title: string, fields: string): Kind {
  const page = `groups(first: $n) { nodes { ${fields} } }`
  return { title, documentOf: () => `query ($n: Int!) { sequence(name: "charged") { ${page} } }` }
}

/** Each counter or group by a field of its own, outside of lists. */
function apart(title: string, of: 'counter' | 'group', fields: string): Kind {
  const type = of === 'counter' ? 'Counter' : 'SequenceGroup'
  const documentOf = (size: number) => {
    const each = NAMES.slice(0, size).map((name, index) => `a${index}: ${of}(name: "${name}") { ...F }`)
    const all = of === 'counter' ? each.join(' ') : `sequence(name: "charged") { ${each.join(' ')} }`
    return `{ ${all} } fragment F on ${type} { ${fields} }`
  }
  return { title: `${title}, each apart`, documentOf }
}

/** A kind with a number of names, and what was measured of it in each round. */
interface Case {
  kind: Kind
  size: number
  body: object
  rounds: Cost[]
}

/** How many values a request is charged for, and the processor time of each, in microseconds. */
interface Cost {
  values: number
  nth: number
  database: number
}

/**
 * Measures the processor time of Nth and of its database for each value that a request is charged for.
 *
 * @returns Markdown
 * @throws {Error} at the first answer with an error
 */
export function charges({ rounds, seconds, warmupSeconds, ...options }: Options & Progress): Promise<string> {
  const { say, signal } = options
  return withResources(options, async (resources) => {
    const target = await resources.database()
    const nth = resources.keep(await startNth(target))
    // It has one address.
    const url = `${nth.urls[0]}/graphql`
    const connection = await createConnection(target)
    await prepare(url, connection)
    const pids = { nth: nth.pid, database: await serverProcessOf(connection) }
    await connection.end()

    const cases = KINDS.flatMap((kind) =>
      SIZES.map((size): Case => {
        const variables = { names: NAMES.slice(0, size), n: size }
        return { kind, size, body: { query: kind.documentOf(size), variables }, rounds: [] }
      }),
    )
    for (let round = 0; round <= rounds; round++) {
      for (const { kind, size, body, rounds: done } of cases) {
        signal.throwIfAborted()
        // The first round only warms up.
        const cost = await costOf(url, body, round === 0 ? warmupSeconds : seconds, pids)
        if (round === 0) continue
        done.push(cost)
        say(`round ${round} of ${rounds}, ${kind.title}, ${size}: ${sumOf(cost).toFixed(1)} µs`)
      }
    }
    const lists = new Map(
      cases.flatMap((each) => (each.kind === LIST ? [[each.size, medianCost(each)]] : [])),
    )
    const rows = cases.map((each) => {
      const { kind, size, rounds: done } = each
      const ratio = medianCost(each) / (lists.get(size) ?? Number.NaN)
      return [
        kind.title,
        String(size),
        ...(['values', 'nth', 'database'] as const).map((figure, index) =>
          medianOf(done.map((cost) => cost[figure])).toFixed(index === 0 ? 0 : 1),
        ),
        ratio > MAX_RATIO ? `**${ratio.toFixed(1)}**` : ratio.toFixed(1),
      ]
    })
    return [
      '# What a charged value costs',
      `Processor time for each value that a request is charged for, in µs, medians of ${rounds} rounds of ${seconds} s; and how many times that of a list by as many names. More than ${MAX_RATIO} times is in bold.`,
      tableOf(['', 'names', 'values', 'Nth', 'database', 'times a list'], rows),
      '',
    ].join('\n\n')
  })
}

function sumOf({ nth, database }: Cost): number {
  return nth + database
}

function medianCost({ rounds }: Case): number {
  return medianOf(rounds.map(sumOf))
}

/** Creates all counters and groups, with a subject and a history each. */
async function prepare(url: string, connection: Connection): Promise<void> {
  const send = (query: string, variables = {}) => answerTo(url, { query, variables })
  await send('mutation { defineNamespace(definition: { leaderboards: [DAY] }) { name } }')
  const all = [...NAMES, ...OTHERS]
  const add = 'mutation ($changes: [CounterDeltaInput!]!) { incrementMany(changes: $changes) { value } }'
  for (let start = 0; start < all.length; start += MAX_NAMES) {
    const names = all.slice(start, start + MAX_NAMES)
    await send(add, { changes: names.map((name, index) => ({ name, delta: start + (index % 100) + 1 })) })
  }
  for (const name of NAMES)
    await send(
      `mutation ($name: String!) {
        increment(name: $name, subject: "s") { value }
        nextInSequence(name: "charged", group: $name, subject: "s") { value }
      }`,
      { name },
    )
  for (const [code, seconds] of HISTORY)
    for (let back = 1; back <= PAST_PERIODS; back++)
      await connection.query(
        `insert into counter_history (counter_id, period, start, value)
         select id, ${code}, ${seconds} * (floor(unix_timestamp() / ${seconds}) - ${back}), 1
           from counter
          where name like 'counter-%'`,
      )
  // Leaderboards are about a second behind.
  const isListed = async () => {
    const { data } = await send(`{ counter(name: "${OTHERS.at(-1)}") { place day: place(period: DAY) } }`)
    return data.counter.place !== null && data.counter.day !== null
  }
  while (!(await isListed())) await pause(200)
}

/** Sends a request again and again for some time. */
async function costOf(
  url: string,
  body: object,
  seconds: number,
  pids: { nth: number; database: number },
): Promise<Cost> {
  const used = () => ({ nth: processorTimeOf(pids.nth), database: processorTimeOf(pids.database) })
  const before = used()
  const end = performance.now() + 1000 * seconds
  let values = 0
  let requests = 0
  for (; performance.now() < end; requests++) values = (await answerTo(url, body)).extensions.cost.values
  const after = used()
  const microseconds = (of: 'nth' | 'database') => (1_000_000 * (after[of] - before[of])) / requests / values
  return { values, nth: microseconds('nth'), database: microseconds('database') }
}

/** @throws {Error} if the answer has an error */
async function answerTo(url: string, body: object) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, extensions: { cost: true } }),
  })
  const answer = await response.json()
  if (answer.errors) throw new Error(JSON.stringify(answer.errors[0]))
  return answer
}
