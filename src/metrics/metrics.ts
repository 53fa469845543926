import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { Limit, RequestMeasure } from '../core/measures.ts'
import type { MetricState } from './aggregate.ts'

/** What is read when the metrics are. */
export interface MetricSources {
  /** Changes that wait for their answer, and names that are watched. */
  nth(): { pending: number; watched: number }
  subscribers(): number
  database(): { isAvailable: boolean; open: number; busy: number }
}

export type Metrics = ReturnType<typeof openMetrics>

/** Upper bounds, in seconds. */
const DURATIONS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const SIZES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]
const MS = 1000

/** Label of the code of a request without an error. */
const OK = 'OK'

/** Of the process itself: they measure all the time, and can't be closed. */
const readProcess = once(() => {
  const register = new Registry()
  collectDefaultMetrics({ register })
  return register
})

/** Measures this process, until it is closed. Labels have values of our own only, never a caller's text. */
export function openMetrics(version: string) {
  const register = new Registry()
  const registers = [register]
  let sources: MetricSources | undefined

  const counter = <Label extends string = never>(name: string, help: string, labelNames: Label[] = []) =>
    new Counter({ name, help, labelNames, registers })
  const histogram = <Label extends string = never>(
    name: string,
    help: string,
    buckets: number[],
    labelNames: Label[] = [],
  ) => new Histogram({ name, help, buckets, labelNames, registers })

  const requests = counter(
    'nth_requests_total',
    'Requests to the API that were answered, by the kind of operation (none: refused before that was known) and the code of the first error (OK: none). A subscription counts when it is opened',
    ['operation', 'code'],
  )
  const requestDuration = histogram(
    'nth_request_duration_seconds',
    'Time to answer a request, by the kind of operation',
    DURATIONS,
    ['operation'],
  )
  const flushOperations = histogram('nth_flush_operations', 'Operations in a committed transaction', SIZES)
  const flushDuration = histogram(
    'nth_flush_duration_seconds',
    'Time of a transaction that changes counters or sequences, with the attempts before it',
    DURATIONS,
  )
  const waitDuration = histogram(
    'nth_wait_duration_seconds',
    'Time that a change waited for its answer, including the transaction',
    DURATIONS,
  )
  const retries = counter('nth_flush_retries_total', 'Attempts of a transaction that were repeated')
  const fenceReads = counter('nth_fence_reads_total', 'Answers to COMMIT that were lost and looked up')
  const trips = counter('nth_database_round_trips_total', 'Texts of statements sent to the database')
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
      requests.inc({ operation, code })
      requestDuration.observe({ operation }, durationMs / MS)
    },
    'nth:flush': ({ operations, durationMs }: { operations: number; durationMs: number }) => {
      flushOperations.observe(operations)
      flushDuration.observe(durationMs / MS)
    },
    'nth:wait': (durationMs: number) => waitDuration.observe(durationMs / MS),
    'nth:retry': () => retries.inc(),
    'nth:fence-read': () => fenceReads.inc(),
    'nth:refusal': (limit: Limit) => refusals.inc({ limit }),
    // Published by mysql2.
    'tracing:mysql2:query:start': () => trips.inc(),
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
      return [...(await register.getMetricsAsJSON()), ...(await readProcess().getMetricsAsJSON())]
    },

    /** Counts no more. What was counted can still be read. */
    close(): void {
      for (const [name, onMessage] of subscribed) unsubscribe(name, onMessage)
    },
  }
}

function once<Value>(create: () => Value): () => Value {
  let created: Value | undefined
  return () => {
    created ??= create()
    return created
  }
}
