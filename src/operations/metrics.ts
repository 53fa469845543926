import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import {
  AggregatorRegistry,
  Counter,
  collectDefaultMetrics,
  Gauge,
  type MetricObjectWithValues,
  type MetricType,
  type MetricValue,
  Registry,
} from 'prom-client'
import type { Limit, RequestMeasure } from './measures.ts'

/** What is read when the metrics are. */
interface MetricSources {
  /** Changes that wait for their answer, and names that are watched. */
  nth(): { pending: number; watched: number }
  subscribers(): number
  database(): { isAvailable: boolean; open: number; busy: number }
}

/** Upper bounds, in seconds. */
const DURATIONS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const SIZES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]
const MS = 1000

/** Label of the code of a request without an error. */
const OK = 'OK'

/** Of the process itself: they measure all the time, and can't be closed. */
let processRegister: Registry | undefined

function readProcess() {
  if (processRegister === undefined) {
    processRegister = new Registry()
    collectDefaultMetrics({ register: processRegister })
  }
  return processRegister.getMetricsAsJSON()
}

/**
 * Measures this process, until it is closed. Labels have values of our own only, never a caller's text. What every call
 * changes is kept in plain numbers until it is read: in prom-client an `increment` took 48 function calls.
 */
export function openMetrics(version: string) {
  const register = new Registry()
  const registers = [register]
  let sources: MetricSources | undefined

  const counter = <Label extends string = never>(name: string, help: string, labelNames: Label[] = []) =>
    new Counter({ name, help, labelNames, registers })

  /** Requests by kind of operation. */
  const requests = new Map<string, { codes: Map<string, number>; durations: Distribution }>()
  new Counter({
    name: 'nth_requests_total',
    help: 'Requests to the API that were answered, by the kind of operation (none: refused before that was known) and the code of the first error (OK: none). A subscription counts when it is opened',
    labelNames: ['operation', 'code'],
    registers,
    collect() {
      this.reset()
      for (const [operation, { codes }] of requests)
        for (const [code, count] of codes) this.inc({ operation, code }, count)
    },
  })
  const flushOperations = new Distribution(SIZES)
  const flushDurations = new Distribution(DURATIONS)
  const waitDurations = new Distribution(DURATIONS)
  const readHistograms = () => [
    histogram(
      'nth_request_duration_seconds',
      'Time to answer a request, by the kind of operation',
      [...requests].map(([operation, { durations }]) => [durations, { operation }]),
    ),
    histogram('nth_flush_operations', 'Operations in a committed transaction', [[flushOperations, {}]]),
    histogram(
      'nth_flush_duration_seconds',
      'Time of a transaction that changes counters or sequences, with the attempts before it',
      [[flushDurations, {}]],
    ),
    histogram(
      'nth_wait_duration_seconds',
      'Time that a change waited for its answer, including the transaction',
      [[waitDurations, {}]],
    ),
  ]
  const retries = counter('nth_flush_retries_total', 'Attempts of a transaction that were repeated')
  const fenceReads = counter('nth_fence_reads_total', 'Answers to COMMIT that were lost and looked up')
  let trips = 0
  new Counter({
    name: 'nth_database_round_trips_total',
    help: 'Texts of statements sent to the database',
    registers,
    collect() {
      this.reset()
      this.inc(trips)
    },
  })
  const refusals = counter('nth_refusals_total', 'Requests and fields refused by a limit', ['limit'])

  function gauge(name: string, help: string, read: (sources: MetricSources) => number): void {
    new Gauge({
      name,
      help: `${help} (sum of all workers)`,
      registers,
      aggregator: 'sum',
      collect() {
        this.set(sources ? read(sources) : 0)
      },
    })
  }

  gauge('nth_pending_changes', 'Changes that wait for their answer', ({ nth }) => nth().pending)
  gauge('nth_watched_names', 'Names that subscriptions watch', ({ nth }) => nth().watched)
  gauge('nth_subscribers', 'Open subscriptions', ({ subscribers }) => subscribers())
  gauge('nth_workers', 'Processes that serve', () => 1)
  new Gauge({
    name: 'nth_database_connections',
    help: 'Connections to the database, besides those of the writers: open, and in use (sum of all workers)',
    labelNames: ['state'],
    registers,
    aggregator: 'sum',
    collect() {
      const { open = 0, busy = 0 } = sources?.database() ?? {}
      this.set({ state: 'open' }, open)
      this.set({ state: 'busy' }, busy)
    },
  })
  new Gauge({
    name: 'nth_database_up',
    help: '1: the database can be read and written, as far as is known; 0: it is unreachable, refuses changes, or its disk is full (the lowest of all workers)',
    registers,
    aggregator: 'min',
    collect() {
      this.set(sources?.database().isAvailable ? 1 : 0)
    },
  })
  new Gauge({
    name: 'nth_build_info',
    help: 'Always 1; the version is a label (of the first worker)',
    labelNames: ['version'],
    registers,
    aggregator: 'first',
  }).set({ version }, 1)

  const subscriptions: Record<string, (message: never) => void> = {
    'nth:request': ({ operation = 'none' as never, code = OK, durationMs }: RequestMeasure) => {
      let counts = requests.get(operation)
      if (!counts) {
        counts = { codes: new Map(), durations: new Distribution(DURATIONS) }
        requests.set(operation, counts)
      }
      counts.codes.set(code, (counts.codes.get(code) ?? 0) + 1)
      counts.durations.observe(durationMs / MS)
    },
    'nth:flush': ({ operations, durationMs }: { operations: number; durationMs: number }) => {
      flushOperations.observe(operations)
      flushDurations.observe(durationMs / MS)
    },
    'nth:wait': (durationMs: number) => waitDurations.observe(durationMs / MS),
    'nth:retry': () => retries.inc(),
    'nth:fence-read': () => fenceReads.inc(),
    'nth:refusal': (limit: Limit) => refusals.inc({ limit }),
    'nth:trip': () => {
      trips += 1
    },
  }
  // Each channel has messages of its own type.
  const subscribed = Object.entries(subscriptions) as [string, (message: unknown) => void][]
  for (const [name, onMessage] of subscribed) subscribe(name, onMessage)

  return {
    /** What is read from now on. */
    observe(observed: MetricSources): void {
      sources = observed
    },

    /** The present state, as plain objects. */
    async read(): Promise<MetricState[]> {
      const process = await readProcess()
      return [...(await register.getMetricsAsJSON()), ...readHistograms(), ...process]
    },

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
  values(name: string, labels: Record<string, string>) {
    let count = 0
    const buckets = [...this.#bounds, '+Inf'].map((le, index) => {
      count += this.#counts[index] ?? 0
      return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: count }
    })
    const sum = { metricName: `${name}_sum`, labels, value: this.#sum }
    return [...buckets, sum, { metricName: `${name}_count`, labels, value: count }]
  }
}

function histogram(
  name: string,
  help: string,
  labelled: readonly [Distribution, Record<string, string>][],
): MetricState {
  const values = labelled.flatMap(([distribution, labels]) => distribution.values(name, labels))
  // In prom-client's objects, types are names.
  return { name, help, type: 'histogram' as unknown as MetricType, aggregator: 'sum', values }
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
