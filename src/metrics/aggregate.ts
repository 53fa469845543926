import { AggregatorRegistry, type MetricObjectWithValues, type MetricValue } from 'prom-client'

/** A metric of a process, as a plain object: without `collect`, which only the type has. */
export type MetricState = Omit<MetricObjectWithValues<MetricValue<string>>, 'collect'>

/** Metrics that are also shown for each worker, and the names they have there. */
const OF_A_WORKER: Record<string, { name: string; help: string }> = {
  nth_requests_total: {
    name: 'nth_worker_requests_total',
    help: 'As nth_requests_total, by worker (from 1; a replacement continues its number)',
  },
  process_resident_memory_bytes: {
    name: 'nth_worker_resident_memory_bytes',
    help: 'Resident memory in bytes, by worker',
  },
}

/** Adds to the metrics of a process those with the number of the worker as a label. */
export function withWorker(metrics: readonly MetricState[], worker: number): MetricState[] {
  const own = metrics.flatMap((metric) => {
    const shown = OF_A_WORKER[metric.name]
    if (!shown) return []
    const values = metric.values.map((value) => ({ ...value, labels: { ...value.labels, worker } }))
    return [{ ...metric, ...shown, values }]
  })
  return [...metrics, ...own]
}

/** Metrics of several processes, with what those had counted that have ended. */
export function createAggregate() {
  let ended: MetricState[][] = []
  let adding = Promise.resolve()

  /** Adds them up, so that they take no more memory with each. */
  async function addUp(): Promise<void> {
    const taken = [...ended]
    const sum = await AggregatorRegistry.aggregate(taken).getMetricsAsJSON()
    ended = [sum, ...ended.slice(taken.length)]
  }

  return {
    /** Keeps what a process had counted; its gauges ended with it. */
    async keep(metrics: readonly MetricState[]): Promise<void> {
      // In its objects, types are names.
      ended.push(metrics.filter(({ type }) => ['counter', 'histogram'].includes(String(type))))
      adding = adding.then(addUp)
      await adding
    },

    /** In the text format of Prometheus. */
    text: (living: readonly MetricState[][]): Promise<string> =>
      AggregatorRegistry.aggregate([...living, ...ended]).metrics(),
  }
}
