import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import {
  type Aggregator,
  AggregatorRegistry,
  collectDefaultMetrics,
  type MetricObjectWithValues,
  type MetricType,
  type MetricValue,
  Registry,
} from 'prom-client'
import { FAILURE_LEVELS } from './log.ts'
import { LIMITS, type Limit, type RequestMeasure } from './measures.ts'

/** What is read when the metrics are. */
interface MetricSources {
  /** Changes that wait for their answer, and names that are watched. */
  nth(): { pending: number; watched: number }
  subscribers(): number
  database(): Promise<{
    isAvailable: boolean
    open: number
    busy: number
    tables: readonly { name: string; rows: number; bytes: number }[]
  }>
}

/** Upper bounds, in seconds. */
const DURATIONS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const SIZES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]
const MS = 1000

/** Label of the code of a request without an error. */
const OK = 'OK'

/** Metrics of the process itself: they measure all the time, and can't be closed. */
let processRegister: Registry | undefined

function readProcess() {
  if (processRegister === undefined) {
    processRegister = new Registry()
    collectDefaultMetrics({ register: processRegister })
  }
  return processRegister.getMetricsAsJSON()
}

/**
 * Measures this process, until it is closed. Labels have values of our own only, never a caller's text. All is kept in
 * plain numbers until it is read: in prom-client an `increment` took 48 function calls.
 */
export function openMetrics(version: string) {
  let sources: MetricSources | undefined
  /** Requests by kind of operation. What alerts ask for is there from the start: they don't see a series begin at 1. */
  const requests = new Map(
    ['query', 'mutation', 'subscription', 'none'].map((operation) => {
      const codes = new Map([OK, ...Object.keys(FAILURE_LEVELS)].map((code) => [code, 0]))
      return [operation, { codes, durations: new Distribution(DURATIONS) }]
    }),
  )
  const flushOperations = new Distribution(SIZES)
  const flushDurations = new Distribution(DURATIONS)
  const waitDurations = new Distribution(DURATIONS)
  const refusals = new Map<Limit, number>(LIMITS.map((limit) => [limit, 0]))
  let retries = 0
  let fenceReads = 0
  let trips = 0

  const subscriptions: Record<string, (message: never) => void> = {
    'nth:request': ({ operation = 'none' as never, code = OK, durationMs }: RequestMeasure) => {
      const counts = requests.get(operation)
      if (!counts) return
      counts.codes.set(code, (counts.codes.get(code) ?? 0) + 1)
      counts.durations.observe(durationMs / MS)
    },
    'nth:flush': ({ operations, durationMs }: { operations: number; durationMs: number }) => {
      flushOperations.observe(operations)
      flushDurations.observe(durationMs / MS)
    },
    'nth:wait': (durationMs: number) => waitDurations.observe(durationMs / MS),
    'nth:refusal': (limit: Limit) => refusals.set(limit, (refusals.get(limit) ?? 0) + 1),
    'nth:retry': () => void retries++,
    'nth:fence-read': () => void fenceReads++,
    'nth:trip': () => void trips++,
  }
  // Each channel has messages of its own type.
  const subscribed = Object.entries(subscriptions) as [string, (message: unknown) => void][]
  for (const [name, onMessage] of subscribed) subscribe(name, onMessage)

  async function readOwn(): Promise<MetricState[]> {
    const { pending = 0, watched = 0 } = sources?.nth() ?? {}
    const { isAvailable = false, open = 0, busy = 0, tables = [] } = (await sources?.database()) ?? {}
    const answered = [...requests].flatMap(([operation, { codes }]) =>
      [...codes].map(([code, value]) => ({ value, labels: { operation, code } })),
    )
    const durations = [...requests].flatMap(([operation, { durations }]) => durations.values({ operation }))
    const refused = [...refusals].map(([limit, value]) => ({ value, labels: { limit } }))
    const connections = Object.entries({ open, busy }).map(([state, value]) => ({ value, labels: { state } }))
    const sizesOf = (size: 'rows' | 'bytes') =>
      tables.map(({ name: table, [size]: value }) => ({ value, labels: { table } }))
    const build = [{ value: 1, labels: { version } }]
    const counters = metricsOf('counter', {
      nth_requests_total: [
        'Requests to the API that were answered, by the kind of operation (none: refused before that was known) and the code of the first error (OK: none). A subscription counts when it is opened',
        answered,
      ],
      nth_flush_retries_total: ['Attempts of a transaction that were repeated', retries],
      nth_fence_reads_total: ['Commits without a clear answer, which were looked up', fenceReads],
      nth_database_round_trips_total: ['Texts of statements sent to the database', trips],
      nth_refusals_total: ['Requests and fields refused by a limit', refused],
    })
    const histograms = metricsOf('histogram', {
      nth_request_duration_seconds: ['Time to answer a request, by the kind of operation', durations],
      nth_flush_operations: ['Operations in a committed transaction', flushOperations.values()],
      nth_flush_duration_seconds: [
        'Time of a transaction that changes counters or sequences, with the attempts before it',
        flushDurations.values(),
      ],
      nth_wait_duration_seconds: [
        'Time that a change waited for its answer, including the transaction',
        waitDurations.values(),
      ],
    })
    const gauges = metricsOf('gauge', {
      nth_pending_changes: ['Changes that wait for their answer (sum of all workers)', pending],
      nth_watched_names: ['Names that subscriptions watch (sum of all workers)', watched],
      nth_subscribers: ['Open subscriptions (sum of all workers)', sources?.subscribers() ?? 0],
      nth_workers: ['Processes that serve (sum of all workers)', sources ? 1 : 0],
      nth_database_connections: [
        'Connections to the database, besides those of the writers: open, and in use (sum of all workers)',
        connections,
      ],
      nth_database_up: [
        '1: the database can be read and written; 0: it can not, as /ready says (the lowest of all workers)',
        isAvailable ? 1 : 0,
        'min',
      ],
      nth_table_rows: ['Rows of each table, as the database estimates them', sizesOf('rows'), 'max'],
      nth_table_bytes: [
        'Size of each table with its indexes, as the database estimates it',
        sizesOf('bytes'),
        'max',
      ],
      nth_build_info: ['Always 1; the version is a label (of the first worker)', build, 'first'],
    })
    return [...counters, ...histograms, ...gauges]
  }

  return {
    /** What is read from now on. */
    observe(observed: MetricSources): void {
      sources = observed
    },

    read: async (): Promise<MetricState[]> => [...(await readOwn()), ...(await readProcess())],

    /** Counts no more. What was counted can still be read. */
    close(): void {
      for (const [name, onMessage] of subscribed) unsubscribe(name, onMessage)
    },
  }
}

/** How values are distributed over the buckets of a histogram. */
class Distribution {
  readonly #bounds: readonly number[]
  /** By bucket; the last one is above all bounds. */
  readonly #counts: number[]
  #sum = 0

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = new Array(bounds.length + 1).fill(0)
  }

  observe(value: number): void {
    let bucket = 0
    for (const bound of this.#bounds) {
      if (value <= bound) break
      bucket += 1
    }
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1
    this.#sum += value
  }

  /** In the form of prom-client: each bucket includes those before it. */
  values(labels: Record<string, string> = {}): Value[] {
    let count = 0
    const buckets = [...this.#bounds, '+Inf'].map((le, index) => {
      count += this.#counts[index] ?? 0
      return { suffix: '_bucket', labels: { le, ...labels }, value: count }
    })
    const sum = { suffix: '_sum', labels, value: this.#sum }
    return [...buckets, sum, { suffix: '_count', labels, value: count }]
  }
}

/** Metrics by name. `aggregator`: how the values of several processes become one, by default their sum. */
type Described = Record<string, [help: string, values: number | Value[], aggregator?: Aggregator]>

/** The value of a metric for some labels. `suffix`: of its name, in a histogram. */
type Value = MetricValue<string> & { suffix?: string }

function metricsOf(type: 'counter' | 'gauge' | 'histogram', described: Described): MetricState[] {
  return Object.entries(described).map(([name, [help, values, aggregator = 'sum']]) => {
    const all = typeof values === 'number' ? [{ value: values, labels: {} }] : values
    const named = all.map(({ suffix = '', ...value }: Value) => ({ metricName: name + suffix, ...value }))
    // In prom-client's objects, types are names.
    return { name, help, type: type as unknown as MetricType, aggregator, values: named }
  })
}

/** A metric of a process, as a plain object: without `collect`, which only the type has. */
export type MetricState = Omit<MetricObjectWithValues<MetricValue<string>>, 'collect'>

/** Metrics of several processes, with what those had counted that have ended. */
export function createAggregate() {
  /** Added up, so that they take no more memory with each. */
  let ended: Promise<MetricState[]> = Promise.resolve([])

  return {
    /** Keeps what a process had counted; its gauges ended with it. */
    keep(metrics: readonly MetricState[]): void {
      // In its objects, types are names.
      const counted = metrics.filter(({ type }) => ['counter', 'histogram'].includes(String(type)))
      ended = ended.then((sum) => AggregatorRegistry.aggregate([sum, counted]).getMetricsAsJSON())
    },

    /** In the text format of Prometheus. */
    text: async (living: readonly MetricState[][]): Promise<string> =>
      AggregatorRegistry.aggregate([...living, await ended]).metrics(),
  }
}
