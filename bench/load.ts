import { randomUUID } from 'node:crypto'
import { createHistogram } from 'node:perf_hooks'
import { setTimeout as pause } from 'node:timers/promises'
import { drive, type Request } from './drive.ts'
import { processorTimeOf } from './processes.ts'
import { SEQUENCE, type Workload } from './workloads.ts'

/** What a measurement found. */
export interface Figures {
  requestsPerSecond: number
  /** How many numbers were changed: some requests change many. */
  changesPerSecond: number
  p50Ms: number
  p99Ms: number
  /** Processor time of a request: of the system's processes, and of its store. */
  systemUs?: number
  storeUs?: number
}

/** Processes whose processor time is measured (Linux). */
export interface Processes {
  system: readonly number[]
  store: number
}

interface Target {
  /** Of the servers of one system, among which the connections are divided. */
  urls: readonly URL[]
  workload: Workload
  isPrepared?: boolean | undefined
}

interface Measurement extends Target {
  warmupSeconds: number
  /** How long requests are counted, after the warm-up. */
  seconds: number
  processes?: Processes
}

/**
 * Measures a workload, and checks every number that is issued from its first request to its last one.
 *
 * @throws {Error} at the first wrong answer, or unless the numbers of each name are unique, without a gap, in the order
 * that the times of the requests allow, and end at the value that the name has afterwards: so they are linearizable
 */
export async function measure({
  warmupSeconds,
  seconds,
  processes = { system: [], store: 0 },
  ...target
}: Measurement): Promise<Figures> {
  const { changes, nextRead, check } = await openLoad(target)
  const { names, read, readShare = 0 } = target.workload
  // Leaderboards may be behind.
  while (read === 'place' && !(await arePlaced(target.urls[0] as URL, names))) await pause(100)
  const pick = () =>
    Math.random() < readShare ? nextRead() : changes[Math.floor(Math.random() * changes.length)]
  const { system, store } = processes
  const systemSeconds = () => system.reduce((sum, pid) => sum + processorTimeOf(pid), 0)
  const storeBefore = store && processorTimeOf(store)
  const from = performance.now() + warmupSeconds * 1000
  const until = from + seconds * 1000
  let systemBefore: number | undefined
  let systemAfter: number | undefined
  let requests = 0
  const figures = await count(target, from, until, (now) => {
    if (now >= from) systemBefore ??= systemSeconds()
    if (now >= until) systemAfter ??= systemSeconds()
    else requests++
    return now < until ? pick() : undefined
  })
  if (store) {
    const systemUsed = (systemAfter ?? Number.NaN) - (systemBefore ?? Number.NaN)
    figures.systemUs = (1e6 * systemUsed) / (figures.requestsPerSecond * seconds)
    figures.storeUs = (1e6 * ((await idleTimeOf(store)) - storeBefore)) / requests
  }
  await check()
  return figures
}

const IDLE_MS = 200
const MAX_IDLE_WAITS = 300

/**
 * Returns the processor time that a process has used when it is idle, in seconds: what follows a request, such as
 * copies for leaderboards, is part of its cost. What never becomes idle is waited for no longer than a minute.
 */
export async function idleTimeOf(pid: number): Promise<number> {
  let used = processorTimeOf(pid)
  for (let waits = 0; waits < MAX_IDLE_WAITS; waits++) {
    await pause(IDLE_MS)
    const before = used
    used = processorTimeOf(pid)
    if ((used - before) * 1000 < 0.1 * IDLE_MS) break
  }
  return used
}

/** Changes each name of a workload once, so that all exist, and checks the answers as `measure` does. */
export async function touch(target: Target): Promise<Figures> {
  const { changes, check } = await openLoad(target)
  const requests = (target.workload.change === 'incrementMany' ? changes.slice(0, 1) : changes).values()
  const figures = await count(target, performance.now(), undefined, () => requests.next().value)
  await check()
  return figures
}

/** Sends requests, and counts those that are answered in a time: to its end or, if it has none, until all are. */
async function count(
  { urls, workload }: Target,
  from: number,
  until: number | undefined,
  next: (now: number) => Request | undefined,
): Promise<Figures> {
  const latencies = createHistogram()
  let changes = 0
  await Promise.all(
    urls.map((url) =>
      drive({
        url,
        connections: Math.ceil(workload.connections / urls.length),
        next,
        onAnswer(request, sentAt, now) {
          if (now < from || (until !== undefined && now >= until)) return
          changes += request.changes
          // A histogram takes whole numbers from 1 on: microseconds.
          latencies.record(Math.max(1, Math.round((now - sentAt) * 1000)))
        },
      }),
    ),
  )
  const seconds = ((until ?? performance.now()) - from) / 1000
  return {
    requestsPerSecond: latencies.count / seconds,
    changesPerSecond: changes / seconds,
    p50Ms: latencies.percentile(50) / 1000,
    p99Ms: latencies.percentile(99) / 1000,
  }
}

/** The requests of a workload, and the check of the numbers that they were answered with. */
async function openLoad({ urls, workload, isPrepared }: Target) {
  // There is a server of every system.
  const url = urls[0] as URL
  const { names, preparation, mayRepeat = false } = workload
  if (preparation && !isPrepared) await ask(url, { query: preparation })
  const before = await readValues(url, workload)
  const issued = names.map((): number[] => [])
  return {
    changes: changesOf(
      workload,
      url,
      (place, value, sentAt, answeredAt) => void issued[place]?.push(value, sentAt, answeredAt),
    ),
    nextRead: readsOf(workload, url, before),

    async check(): Promise<void> {
      for (const each of urls) {
        const after = await readValues(each, workload)
        for (const [place, name] of names.entries()) {
          const numbers = { answers: issued[place] ?? [], before: before[place] ?? 0, after: after[place] }
          checkNumbers(name, numbers, mayRepeat)
        }
      }
    },
  }
}

const FAULTS_SHOWN = 5

/**
 * With `mayRepeat`, only how many numbers were issued must be right.
 *
 * @param answers of each: its number, when it was requested, and when it was answered
 */
function checkNumbers(
  name: string,
  { answers, before, after }: { answers: number[]; before: number; after: number | undefined },
  mayRepeat: boolean,
): void {
  const faults: string[] = []
  const count = answers.length / 3
  const partOf = (answer: number, part: number) => answers[3 * answer + part] ?? Number.NaN
  const ordered = [...Array(mayRepeat ? 0 : count).keys()].sort((a, b) => partOf(a, 0) - partOf(b, 0))
  let last = before
  let latestRequest = Number.NEGATIVE_INFINITY
  for (const answer of ordered) {
    const [value, sentAt, answeredAt] = [partOf(answer, 0), partOf(answer, 1), partOf(answer, 2)]
    if (answeredAt < latestRequest) faults.push(`${value} was answered before a lower one was requested`)
    latestRequest = Math.max(latestRequest, sentAt)
    if (value === last) faults.push(`${value} was issued twice`)
    else if (value !== last + 1) faults.push(`${value} came after ${last}`)
    last = value
  }
  if (after !== before + count)
    faults.push(`it has ${after}, not ${before} and the ${count} that were answered`)
  if (faults.length > 0) throw new Error(`${name}: ${faults.slice(0, FAULTS_SHOWN).join('; ')}.`)
}

type Note = (place: number, value: number, sentAt: number, answeredAt: number) => void

/** The most requests that are made beforehand. */
const MAX_KEPT = 100_000
/** The number of requests that change all names, each in an order of its own. */
const ORDERS = 64

/** One request for each name, or some that change all names at once. */
function changesOf({ change, names }: Workload, url: URL, note: Note): Request[] {
  if (change === 'incrementMany') {
    return Array.from({ length: ORDERS }, () => {
      const places = shuffled(names.keys())
      const bytes = bytesOf(incrementMany(places.map((place) => names[place] ?? '')), url)
      return changing(places, () => bytes, change, note)
    })
  }
  const { field, operationOf, isRepeat } = CHANGES[change]
  const noteNew: Note = isRepeat ? () => undefined : note
  return names.map((name, place) => {
    const makeBytes = () => bytesOf(operationOf(name, UUID), url)
    // The bytes of a million requests are not kept.
    if (names.length > MAX_KEPT) return changing([place], makeBytes, field, noteNew)
    const bytes = makeBytes()
    const [head, tail] = bytes.toString('latin1').split(UUID)
    // A request with a key or a subject gets a new one each time.
    const send =
      tail === undefined ? () => bytes : () => Buffer.from(`${head}${randomUUID()}${tail}`, 'latin1')
    return changing([place], send, field, noteNew)
  })
}

/** Stands for the idempotency key or the subject in requests that are made beforehand. */
const UUID = randomUUID()

/** A GraphQL request. Most documents stay the same, and the names are variables. */
export interface Operation {
  query: string
  variables?: Record<string, unknown>
}

const CHANGES: Record<
  Exclude<Workload['change'], 'incrementMany'>,
  {
    field: string
    operationOf(name: string, key: string): Operation
    /** Whether it returns a number that was issued before. */
    isRepeat?: true
  }
> = {
  increment: {
    field: 'increment',
    operationOf: (name) => ({
      query: 'mutation($name: String!) { increment(name: $name) { value } }',
      variables: { name },
    }),
  },
  withKey: {
    field: 'increment',
    operationOf: (name, key) => ({
      query:
        'mutation($name: String!, $key: String!) { increment(name: $name, idempotencyKey: $key) { value } }',
      variables: { name, key },
    }),
  },
  withSubject: {
    field: 'increment',
    operationOf: (name, subject) => withSubject(name, subject),
  },
  again: { field: 'increment', operationOf: (name) => withSubject(name, 'again'), isRepeat: true },
  inText: {
    field: 'increment',
    operationOf: (name, key) => ({
      query: `mutation { increment(name: "${name}", idempotencyKey: "${key}") { value } }`,
    }),
  },
  withMonth: {
    field: 'increment',
    operationOf: (name) => ({
      query: 'mutation($name: String!) { increment(name: $name) { value valueIn(period: MONTH) } }',
      variables: { name },
    }),
  },
  nextInSequence: {
    field: 'nextInSequence',
    operationOf: (group) => ({
      query:
        'mutation($name: String!, $group: String!) { nextInSequence(name: $name, group: $group) { value } }',
      variables: { name: SEQUENCE, group },
    }),
  },
}

function withSubject(name: string, subject: string): Operation {
  return {
    query:
      'mutation($name: String!, $subject: String!) { increment(name: $name, subject: $subject) { value } }',
    variables: { name, subject },
  }
}

function incrementMany(names: readonly string[]): Operation {
  return {
    query: 'mutation($changes: [CounterDeltaInput!]!) { incrementMany(changes: $changes) { value } }',
    variables: { changes: names.map((name) => ({ name, delta: 1 })) },
  }
}

function shuffled(places: Iterable<number>): number[] {
  return [...places]
    .map((place) => ({ place, by: Math.random() }))
    .sort((a, b) => a.by - b.by)
    .map(({ place }) => place)
}

/** A request that changes the names at some places, and is answered with their numbers in the same order. */
function changing(places: readonly number[], bytes: Request['bytes'], field: string, note: Note): Request {
  return {
    bytes,
    changes: places.length,
    take(body, sentAt, now) {
      const { data, errors } = JSON.parse(body)
      const values: unknown[] = [data?.[field]].flat().map((change) => change?.value)
      if (errors || values.length !== places.length) throw new Error(`It answered a change with ${body}`)
      for (const [index, place] of places.entries()) {
        const value = values[index]
        if (typeof value !== 'number' || !Number.isSafeInteger(value))
          throw new Error(`It answered a change with ${body}`)
        note(place, value, sentAt, now)
      }
    },
  }
}

const READ = 'query($names: [String!]!) { counters(names: $names) { name value } }'

/** A counter as it was read. */
interface CounterRead {
  name: string
  value: number
  history: { value: number }[]
  place: number
}

/** Hours of which a day's history must have a total: fewer, as a run may pass the end of some. */
const MIN_HOURS = 20

const READS: Record<
  NonNullable<Workload['read']>,
  { query: string; isRight(counter: CounterRead, before: number): boolean }
> = {
  // None may have a value below the one that it had before.
  value: { query: READ, isRight: ({ value }, before) => Number.isSafeInteger(value) && value >= before },
  history: {
    query:
      'query($names: [String!]!) { counters(names: $names) { name history(period: HOUR, last: 24) { start value } } }',
    isRight: ({ history }) => history.filter(({ value }) => value > 0).length >= MIN_HOURS,
  },
  place: {
    query: 'query($names: [String!]!) { counters(names: $names) { name place } }',
    // Counters of other workloads may precede it.
    isRight: ({ place }) => place >= 1,
  },
}

/** Returns what makes the requests that read: all names, or a random choice of them each time. */
function readsOf(
  { names, readCount, read = 'value' }: Workload,
  url: URL,
  before: readonly number[],
): () => Request {
  const { query, isRight } = READS[read]
  const all = [...names.keys()]
  const readAt = (places: readonly number[]): Request => {
    const asked = places.map((place) => names[place] ?? '')
    const bytes = bytesOf({ query, variables: { names: asked } }, url)
    return {
      bytes: () => bytes,
      changes: 0,
      take(body) {
        const { data, errors } = JSON.parse(body)
        const counters: CounterRead[] = data?.counters ?? []
        const areRight = counters.every(
          (counter, index) =>
            counter.name === asked[index] && isRight(counter, before[places[index] ?? 0] ?? 0),
        )
        if (errors || counters.length !== asked.length || !areRight)
          throw new Error(`It answered a read of ${asked.length} names with ${body}`)
      },
    }
  }
  if (readCount !== undefined) return () => readAt(chosen(all, readCount))
  const request = readAt(all)
  return () => request
}

/** Returns some different random items, which it moves to the front. */
function chosen(items: number[], count: number): number[] {
  for (let index = 0; index < count; index++) {
    const other = index + Math.floor(Math.random() * (items.length - index))
    const item = items[index] ?? 0
    items[index] = items[other] ?? 0
    items[other] = item
  }
  return items.slice(0, count)
}

/** The most names that one request may read. */
const MAX_NAMES = 500

/** The present values of a workload's names, in their order. */
export async function readValues(url: URL, { change, names }: Workload): Promise<number[]> {
  const values: number[] = []
  if (change === 'nextInSequence') {
    const query =
      'query($name: String!, $group: String!) { sequence(name: $name) { group(name: $group) { lastValue } } }'
    for (const group of names) {
      const { sequence } = await ask(url, { query, variables: { name: SEQUENCE, group } })
      values.push(sequence.group.lastValue ?? 0)
    }
    return values
  }
  for (let at = 0; at < names.length; at += MAX_NAMES) {
    const variables = { names: names.slice(at, at + MAX_NAMES) }
    const { counters } = await ask(url, { query: READ, variables })
    for (const { value } of counters) values.push(value)
  }
  return values
}

async function arePlaced(url: URL, names: readonly string[]): Promise<boolean> {
  const { counters } = await ask(url, {
    query: READS.place.query,
    variables: { names: names.slice(-MAX_NAMES) },
  })
  return counters.every(({ place }) => place !== null)
}

interface Data {
  counters: { value: number; place: number | null }[]
  sequence: { group: { lastValue: number | null } }
}

/** Sends one request, on a connection that is closed after it. */
export async function ask(url: URL, operation: Operation): Promise<Data> {
  const response = await fetch(new URL('/graphql', url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', connection: 'close' },
    body: JSON.stringify(operation),
  })
  const text = await response.text()
  const { data, errors } = JSON.parse(text)
  if (errors || !data) throw new Error(`It answered with ${text}`)
  return data
}

/** An operation as the bytes of a request of HTTP/1.1, on a connection that stays open. */
export function bytesOf(operation: Operation, { host }: URL): Buffer {
  const body = JSON.stringify(operation)
  return Buffer.from(
    [
      'POST /graphql HTTP/1.1',
      `host: ${host}`,
      'accept: application/json',
      'content-type: application/json',
      `content-length: ${Buffer.byteLength(body)}`,
      '',
      body,
    ].join('\r\n'),
  )
}
