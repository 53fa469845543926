/** What Nth counts of itself: values by name with labels, as the page shows them. */
export type Metrics = ReadonlyMap<string, number>

/** @param address of a server for the metrics alone */
export async function readMetrics(address: string): Promise<Metrics> {
  const response = await fetch(`${address}/metrics`)
  const text = await response.text()
  if (response.status !== 200) throw new Error(`The metrics were answered with ${response.status}: ${text}`)
  return new Map(
    text.split('\n').flatMap((line) => {
      const [, name, value] = /^(\w+(?:\{.*\})?) (\S+)$/.exec(line) ?? []
      return name === undefined ? [] : [[name, Number(value)]]
    }),
  )
}

/**
 * What was counted between two readings, in all and by each worker, by the kind of operation and the code: such as
 * `mutation OK`, and `0 mutation OK` of the first worker.
 */
export function answersBetween(before: Metrics, after: Metrics): Record<string, number> {
  const answers: Record<string, number> = {}
  for (const [name, value] of after) {
    const [, metric] = /^(nth_requests_total|nth_worker_requests_total)\{/.exec(name) ?? []
    const count = value - (before.get(name) ?? 0)
    if (!metric || count === 0) continue
    const label = (key: string) => new RegExp(`${key}="([^"]*)"`).exec(name)?.[1]
    const kind = `${label('operation')} ${label('code')}`
    answers[metric === 'nth_requests_total' ? kind : `${Number(label('worker')) - 1} ${kind}`] = count
  }
  return answers
}
