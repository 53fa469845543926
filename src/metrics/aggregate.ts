import { AggregatorRegistry, type MetricObject } from 'prom-client'

/** Metrics of several processes, with what those had counted that have ended. */
export function createAggregate() {
  let ended: MetricObject[][] = []
  let adding = Promise.resolve()

  /** Adds them up, so that they take no more memory with each. */
  async function addUp(): Promise<void> {
    const taken = [...ended]
    const sum = await AggregatorRegistry.aggregate(taken).getMetricsAsJSON()
    ended = [sum, ...ended.slice(taken.length)]
  }

  return {
    /** Keeps what a process had counted; its gauges ended with it. */
    async keep(metrics: readonly MetricObject[]): Promise<void> {
      // In its objects, types are names.
      ended.push(metrics.filter(({ type }) => ['counter', 'histogram'].includes(String(type))))
      adding = adding.then(addUp)
      await adding
    },

    /** In the text format of Prometheus. */
    text: (living: readonly MetricObject[][]): Promise<string> =>
      AggregatorRegistry.aggregate([...living, ...ended]).metrics(),
  }
}
