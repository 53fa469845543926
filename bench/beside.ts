// How long a caller waits beside another one, which asks for as much as it may.
import { setTimeout as pause } from 'node:timers/promises'
import { type Connection, createConnection, type RowDataPacket } from 'mysql2/promise'
import type { Options } from './options.ts'
import { built, memoryOf, serverProcessOf } from './processes.ts'
import { medianOf, tableOf } from './report.ts'
import { type Progress, withResources } from './resources.ts'
import { startNth } from './systems.ts'
import { numbered } from './workloads.ts'

/** Behind a proxy, which is this process. */
const SETTINGS = { NTH_TRUST_PROXY: '127.0.0.1', NTH_ANONYMOUS: 'ADMIN', NTH_LOG_LEVEL: 'error' }
/** Requests of the greedy caller at once, streams that it has open, and keys that it tries at once. */
const REQUESTS = 40
const STREAMS = 100
const KEYS = 199
/** How long a row is locked, and how long then not. */
const LOCKED_MS = 1500
const UNLOCKED_MS = 500
/** How long the greedy caller has begun before the other one is measured. */
const LEAD_MS = 1000
/** Pause of the honest caller after each answer. */
const PAUSE_MS = 20
/** Time between two looks at the database and at `/ready`. */
const LOOK_EVERY_MS = 200

/** The 90th percentile beside a greedy caller is at most so many times the one alone, or so long. */
const MAX_RATIO = 10
const MAX_MS = 250
/** If the ones alone differ by more, the machine did something else. */
const MAX_DRIFT = 2
/** Fewer rounds show whether everything is answered, but not how fast. */
const ENOUGH_ROUNDS = 3
/** What the database may need for the greedy caller: memory for each of its connections, and statements at once. */
const CONNECTIONS = 10
const MEMORY_EACH = 20e6
const MAX_STATEMENTS = 16

const NAMES = numbered('counter', 4000)
const firstNames = (count: number) => JSON.stringify(NAMES.slice(0, count))
const CHARTS = `counters(names: ${firstNames(10)}) { history(period: HOUR, last: 1200) { start value } }`
/** A cart of the first counters from a place on. */
const cart = (count: number, start = 0) =>
  `mutation { incrementMany(changes: [${NAMES.slice(start, start + count).map((name) => `{ name: "${name}" }`)}]) { value } }`
/** Large carts that share no counter. Together, they are below the limit of changes that may wait. */
const LARGE = 200
const LARGE_CARTS = Array.from({ length: NAMES.length / LARGE }, (_, index) => cart(LARGE, LARGE * index))

/** What the honest caller sends, each in a loop of its own. */
const REQUESTED = {
  list: `{ counters(names: ${firstNames(100)}) { id name value revision minValue maxValue overflow } }`,
  cart: cart(50),
  increment: 'mutation { increment(name: "hot") { value } }',
  number: 'mutation { nextInSequence(name: "tickets") { value } }',
}
type Kind = keyof typeof REQUESTED | 'event'
const KINDS = [...(Object.keys(REQUESTED) as (keyof typeof REQUESTED)[]), 'event'] as const

/** 90th percentiles of the honest caller, in milliseconds. */
type Waits = Record<Kind, number>

/** Who sends a request. */
interface Caller {
  /** As the proxy in front of Nth would send it. */
  address: string
  key?: string
}

interface Nth {
  url: string
  honest: Caller
  greedy: Caller
  connection: Connection
  databaseProcess: number
}

/** What a greedy caller does until it is stopped. Returns how many answers or events it received. */
interface Attack {
  title: string
  run(nth: Nth, signal: AbortSignal): Promise<number>
}

const ATTACKS: readonly Attack[] = [
  { title: `${STREAMS} streams of charts`, run: openCharts },
  repeated('places of 500', `{ counters(names: ${firstNames(500)}) { place } }`),
  repeated('neighbors of 60', `{ counters(names: ${firstNames(60)}) { neighbors { value } } }`),
  repeated('histories of ten', `{ ${CHARTS} }`),
  repeated('changeOf of 500', `{ counters(names: ${firstNames(500)}) { changeOf(subject: "s") { value } } }`),
  repeated(`carts of ${LARGE}`, ...LARGE_CARTS),
  { title: `${KEYS} unknown keys`, run: tryKeys },
  { title: `${REQUESTS} × increment of a row that others lock`, run: incrementLocked },
]

function repeated(title: string, ...queries: string[]): Attack {
  let sent = 0
  return {
    title: `${REQUESTS} × ${title}`,
    run: (nth, signal) =>
      inParallel(REQUESTS, signal, () => send(nth, nth.greedy, queries[sent++ % queries.length] ?? '')),
  }
}

/** What was measured with one attack in a round. */
interface Round {
  before: Waits
  beside: Waits
  after: Waits
  answers: number
  /** By how many bytes the memory of the database grew, and its statements at once, at most. */
  memory: number
  statements: number
}

/**
 * Measures how long the requests and events of an address take alone, beside another address that asks for much, and alone
 * again. Checks that everything is answered, that Nth stays ready, and what the database needs.
 *
 * @returns Markdown
 * @throws {Error} at the first request that is refused; if the database needs too much; with enough rounds, also if the
 *   honest caller waits too long
 */
export function beside({ rounds, seconds, warmupSeconds, ...options }: Options & Progress): Promise<string> {
  const { say, signal } = options
  return withResources(options, async (resources) => {
    const target = await resources.database()
    const { urls } = resources.keep(await startNth(target, SETTINGS))
    const connection = await createConnection(target)
    resources.keep({ end: () => connection.end() })
    // It has one address.
    const nth = await prepare(urls[0] as string, connection)
    await waitsOf(nth, warmupSeconds)

    const measured = ATTACKS.map((attack) => ({ attack, rounds: [] as Round[] }))
    for (let round = 1; round <= rounds; round++)
      for (const { attack, rounds: done } of measured) {
        signal.throwIfAborted()
        const before = await waitsOf(nth, seconds)
        const during = await measureBeside(nth, attack, seconds)
        done.push({ before, ...during, after: await waitsOf(nth, seconds) })
        const waits = KINDS.map((kind) => `${kind} ${during.beside[kind].toFixed(0)}`)
        say(`round ${round} of ${rounds}, ${attack.title}: ${waits.join(', ')} ms`)
      }

    const faults = measured.flatMap(({ attack, rounds: done }) =>
      [...excessOf(done), ...(rounds < ENOUGH_ROUNDS ? [] : delaysOf(done))].map(
        (fault) => `${attack.title}: ${fault}`,
      ),
    )
    const report = [
      '# Beside a greedy caller',
      `90th percentiles of the time that the requests and events of an address take, in ms: alone → beside another address that asks for much. Medians of ${rounds} rounds of ${seconds} s. Every request was answered, and \`/ready\` was 200 all the time. The other columns: what the greedy caller received in a second; by how many MB the memory of the database grew, and how many statements it ran at once, at most.`,
      tableOf(
        ['', ...KINDS, 'answers/s', 'MB', 'statements'],
        measured.map(({ attack, rounds: done }) => [
          attack.title,
          ...KINDS.map((kind) => `${aloneOf(done, kind).toFixed(0)} → ${besideOf(done, kind).toFixed(0)}`),
          medianOf(done.map(({ answers }) => answers / seconds)).toFixed(0),
          (Math.max(...done.map(({ memory }) => memory)) / 1e6).toFixed(0),
          String(Math.max(...done.map(({ statements }) => statements))),
        ]),
      ),
      '',
    ].join('\n\n')
    if (faults.length === 0) return report
    say(report)
    throw new Error(faults.join('; '))
  })
}

function aloneOf(rounds: readonly Round[], kind: Kind): number {
  return medianOf(rounds.flatMap(({ before, after }) => [before[kind], after[kind]]))
}

function besideOf(rounds: readonly Round[], kind: Kind): number {
  return medianOf(rounds.map((round) => round.beside[kind]))
}

/** What the database needed too much of. */
function excessOf(rounds: readonly Round[]): string[] {
  return rounds.flatMap(({ memory, statements }) => [
    ...(memory > CONNECTIONS * MEMORY_EACH
      ? [`the database needed ${(memory / 1e6).toFixed(0)} MB more`]
      : []),
    ...(statements > MAX_STATEMENTS ? [`the database ran ${statements} statements at once`] : []),
  ])
}

/** What the honest caller waited for too long. */
function delaysOf(rounds: readonly Round[]): string[] {
  return KINDS.filter((kind) => {
    const drift = medianOf(rounds.map(({ before, after }) => before[kind] / after[kind]))
    if (drift > MAX_DRIFT || drift < 1 / MAX_DRIFT) return false
    return besideOf(rounds, kind) > Math.max(MAX_MS, MAX_RATIO * aloneOf(rounds, kind))
  }).map(
    (kind) =>
      `${kind} took ${besideOf(rounds, kind).toFixed(0)} ms, alone ${aloneOf(rounds, kind).toFixed(0)}`,
  )
}

/** Creates the counters, the sequence and a key, which both callers use, as the visitors of a page do. */
async function prepare(url: string, connection: Connection): Promise<Nth> {
  const call = (query: string) => send({ url }, { address: '192.0.2.3' }, query)
  for (let start = 0; start < NAMES.length; start += 500) {
    // Values that differ, as those of a leaderboard do.
    const changes = NAMES.slice(start, start + 500).map(
      (name, index) => `{ name: "${name}", delta: ${1 + (((start + index) * 7919) % 1000)} }`,
    )
    await call(`mutation { incrementMany(changes: [${changes}]) { value } }`)
  }
  await call('mutation { increment(name: "locked") { value } }')
  await call('mutation { defineSequence(name: "tickets", definition: {}) { name } }')
  const { createApiKey } = await call(
    'mutation { createApiKey(label: "page", grants: [{ scopes: [READ, ADD, NUMBER] }]) { secret } }',
  )
  const key = createApiKey.secret
  return {
    url,
    connection,
    honest: { address: '192.0.2.1', key },
    greedy: { address: '192.0.2.2', key },
    databaseProcess: await serverProcessOf(connection),
  }
}

async function post(
  { url }: Pick<Nth, 'url'>,
  { address, key }: Caller,
  query: string,
  rest: RequestInit = {},
): Promise<Response> {
  return fetch(`${url}/graphql`, {
    ...rest,
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-forwarded-for': address,
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
      ...rest.headers,
    },
    body: JSON.stringify({ query }),
  })
}

/** @throws {Error} if the answer has an error */
async function send(nth: Pick<Nth, 'url'>, caller: Caller, query: string) {
  const { data, errors } = await (await post(nth, caller, query)).json()
  if (errors) throw new Error(`${query.slice(0, 60)}: ${JSON.stringify(errors[0])}`)
  return data
}

/** Opens a subscription, and passes the data of each event on, until it is stopped. */
async function receive(
  nth: Nth,
  caller: Caller,
  query: string,
  signal: AbortSignal,
  onEvent: (data: string) => void,
): Promise<void> {
  let text = ''
  try {
    const response = await post(nth, caller, query, { headers: { accept: 'text/event-stream' }, signal })
    if (response.status !== 200 || !response.body)
      throw new Error(`A subscription was refused: ${response.status}`)
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      text += chunk
      const events = text.split('\n\n')
      text = events.pop() ?? ''
      for (const event of events)
        if (event.startsWith('event: next')) onEvent(event.slice(event.indexOf('{')))
    }
    throw new Error('A subscription ended.')
  } catch (error) {
    if (!signal.aborted) throw error
  }
}

/** Runs an attack while the honest caller is measured, and looks at the database and at `/ready` meanwhile. */
async function measureBeside(nth: Nth, attack: Attack, seconds: number) {
  const stopping = new AbortController()
  const memoryBefore = memoryOf(nth.databaseProcess)
  let memory = 0
  let statements = 0
  const look = async () => {
    const ready = await fetch(`${nth.url}/ready`)
    if (ready.status !== 200) throw new Error(`/ready: ${await ready.text()}`)
    const [[row]] = await nth.connection.query<RowDataPacket[]>(
      "select count(*) as running from information_schema.processlist where command = 'Query' and id <> connection_id()",
    )
    statements = Math.max(statements, Number(row?.running))
    memory = Math.max(memory, memoryOf(nth.databaseProcess) - memoryBefore)
    await pause(LOOK_EVERY_MS)
  }
  const attacking = attack.run(nth, stopping.signal)
  const looking = inParallel(1, stopping.signal, look)
  const measuring = pause(LEAD_MS)
    .then(() => waitsOf(nth, seconds))
    .finally(() => stopping.abort())
  // The first to fail stops the others.
  for (const part of [attacking, looking]) part.catch(() => stopping.abort())
  const [answers, , beside] = await Promise.all([attacking, looking, measuring])
  return { beside, answers, memory, statements }
}

/** Measures what the honest caller asks for, all kinds at once. */
async function waitsOf(nth: Nth, seconds: number): Promise<Waits> {
  const ending = new AbortController()
  const end = performance.now() + 1000 * seconds
  const measure = async (act: () => Promise<unknown>): Promise<number> => {
    const waits: number[] = []
    while (performance.now() < end) {
      const sentAt = performance.now()
      await act()
      waits.push(performance.now() - sentAt)
      await pause(PAUSE_MS)
    }
    return waits.toSorted((a, b) => a - b)[Math.floor(0.9 * waits.length)] ?? Number.NaN
  }
  const live = await openLive(nth, ending.signal)
  try {
    const waits = await Promise.all([
      ...Object.values(REQUESTED).map((query) => measure(() => send(nth, nth.honest, query))),
      measure(live.changeAndReceive),
    ])
    // In the same order.
    return Object.fromEntries(KINDS.map((kind, index) => [kind, waits[index]])) as Waits
  } finally {
    ending.abort()
    await live.closed
  }
}

/** A stream of a counter of the honest caller, and a function that changes the counter, and waits for the event. */
async function openLive(nth: Nth, signal: AbortSignal) {
  let latest = Number.NEGATIVE_INFINITY
  let onLatest = () => undefined as unknown
  const closed = receive(
    nth,
    nth.honest,
    'subscription { counters(names: ["live"]) { value } }',
    signal,
    (data) => {
      latest = JSON.parse(data).data.counters[0]?.value ?? 0
      onLatest()
    },
  )
  const until = async (value: number) => {
    while (latest < value && !signal.aborted)
      await Promise.race([
        closed,
        new Promise((resolve) => {
          onLatest = () => resolve(undefined)
        }),
      ])
  }
  await until(0)
  const changeAndReceive = async () => {
    const { increment } = await send(nth, nth.honest, 'mutation { increment(name: "live") { value } }')
    await until(increment.value)
  }
  return { changeAndReceive, closed }
}

/** Acts in so many loops until it is stopped, or fails. Returns how often it acted. */
async function inParallel(count: number, signal: AbortSignal, act: () => Promise<unknown>): Promise<number> {
  let acts = 0
  const loop = async () => {
    for (; !signal.aborted; acts++) await act()
  }
  await Promise.all(Array.from({ length: count }, loop))
  return acts
}

/** Opens streams that share nothing, as each has a document of its own. What they show is in the honest caller's carts. */
async function openCharts(nth: Nth, signal: AbortSignal): Promise<number> {
  let events = 0
  const streams = Array.from({ length: STREAMS }, (_, index) =>
    receive(nth, nth.greedy, `subscription Charts${index} { ${CHARTS} }`, signal, () => {
      events += 1
    }),
  )
  await Promise.all(streams)
  return events
}

async function tryKeys(nth: Nth, signal: AbortSignal): Promise<number> {
  const { createSecret } = await built<typeof import('../src/rules/rights.ts')>('rules/rights.js')
  return inParallel(KEYS, signal, async () => {
    const response = await post(nth, { ...nth.greedy, key: createSecret() }, REQUESTED.increment)
    const { errors } = await response.json()
    if (errors?.[0].extensions.code !== 'UNAUTHENTICATED') throw new Error(JSON.stringify(errors))
  })
}

async function incrementLocked(nth: Nth, signal: AbortSignal): Promise<number> {
  const locking = inParallel(1, signal, async () => {
    await nth.connection.query('begin')
    await nth.connection.query("select id from counter where name = 'locked' for update")
    await pause(LOCKED_MS)
    await nth.connection.query('rollback')
    await pause(UNLOCKED_MS)
  })
  const increment = () => send(nth, nth.greedy, 'mutation { increment(name: "locked") { value } }')
  const [answers] = await Promise.all([inParallel(REQUESTS, signal, increment), locking])
  return answers
}
