import { createHistogram } from 'node:perf_hooks'
import type { Workload } from '../workloads.ts'
import { openCounting } from './counting.ts'
import { drive } from './drive.ts'
import { openLeading } from './leading.ts'
import type { Scenario } from './scenario.ts'

/** What a measurement found. */
export interface Figures {
  requestsPerSecond: number
  /** How many numbers were changed: of some requests each changes many. */
  changesPerSecond: number
  p50Ms: number
  p99Ms: number
}

export interface Measurement {
  url: URL
  workload: Workload
  warmupSeconds: number
  /** How long requests are counted, after the warm-up. */
  seconds: number
}

/**
 * Measures a workload, and checks every number that is handed out meanwhile, also before and after what is
 * counted.
 *
 * @throws {Error} at anything wrong
 */
export async function measure(measurement: Measurement): Promise<Figures> {
  const { url, workload, warmupSeconds, seconds } = measurement
  const { pick, check } = await openScenario(measurement)
  const latencies = createHistogram()
  let changes = 0
  const from = performance.now() + warmupSeconds * 1000
  const until = from + seconds * 1000

  await drive({
    url,
    connections: workload.connections,
    next: (now) => (now < until ? pick() : undefined),
    onAnswer(request, sentAt, now) {
      if (now < from || now >= until) return
      changes += request.changes
      // A histogram takes whole numbers from 1 on: microseconds.
      latencies.record(Math.max(1, Math.round((now - sentAt) * 1000)))
    },
  })
  await check()
  return {
    requestsPerSecond: latencies.count / seconds,
    changesPerSecond: changes / seconds,
    p50Ms: latencies.percentile(50) / 1000,
    p99Ms: latencies.percentile(99) / 1000,
  }
}

/**
 * Changes each name of a workload once, so that all are there, or reads each page, and checks the answers. Returns the
 * requests per second.
 */
export async function touch({ url, workload }: Pick<Measurement, 'url' | 'workload'>): Promise<number> {
  const { first, check } = await openScenario({ url, workload })
  const requests = first.values()
  const begun = performance.now()
  await drive({
    url,
    connections: Math.min(workload.connections, first.length),
    next: () => requests.next().value,
  })
  const seconds = (performance.now() - begun) / 1000
  await check()
  return first.length / seconds
}

function openScenario({ url, workload }: Pick<Measurement, 'url' | 'workload'>): Promise<Scenario> {
  return workload.kind === 'leaderboard' ? openLeading(url, workload) : openCounting(url, workload)
}
