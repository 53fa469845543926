import cluster from 'node:cluster'
import { setTimeout as pause } from 'node:timers/promises'
import type { Config } from '../config.ts'
import { backoffMs, RESTART } from '../core/backoff.ts'
import type { Notices } from '../core/notices.ts'
import { createAggregate, withWorker } from '../metrics/aggregate.ts'
import type { Targets } from '../mysql/connections/target.ts'
import { forkWorker, type Worker } from '../workers.ts'
import { probe } from './address.ts'

/**
 * Forks workers, which run `runWorker` and share one address and one database, and waits until all of them serve.
 *
 * States of a worker: forked → started → serving → ended; it listens once it can serve. If one ends before all serve, the startup fails. From then
 * on, each worker that ends by itself is reported and replaced.
 *
 * @throws the system's error if the address is not available, such as EADDRINUSE
 */
export async function openWorkers(config: Config, targets: Targets, notices: Notices) {
  const { workers: count, host, port, shutdownTimeoutMs } = config
  /** With their numbers. */
  const living = new Map<Worker, number>()
  const aggregate = createAggregate()
  const ending = new AbortController()
  // Each worker must request the same one, also one that replaces another.
  const chosen = port === 0 ? (await probe(host, port)).port : port
  const environment = { HOST: host, PORT: String(chosen) }
  // The kernel (SCHED_NONE) distributes connections too unevenly: of 64 simultaneous ones, two idle workers took
  // 62 and 2, four took 55, 8, 1 and 0 (Node 20, two cores), and connections are long-lived.
  cluster.schedulingPolicy = cluster.SCHED_RR

  // When this process ends, serving workers end by themselves. Those that are ending would finish first, so kill all.
  process.once('exit', () => {
    for (const worker of living.keys()) worker.kill()
  })

  /** @param number from 1; a replacement has that of the worker before it */
  function fork(number: number): Worker {
    // Longer than a closing server waits for requests in flight.
    const worker = forkWorker(environment, targets, shutdownTimeoutMs * 0.75, readMetrics)
    living.set(worker, number)
    worker.ended.then(() => {
      living.delete(worker)
      return aggregate.keep(withWorker(worker.metrics(), number))
    })
    return worker
  }

  const readMetrics = () =>
    aggregate.text([...living].map(([worker, number]) => withWorker(worker.metrics(), number)))

  function drain(): void {
    for (const worker of living.keys()) worker.drain()
  }

  async function replaceForEver(first: Worker, number: number): Promise<void> {
    let worker = first
    let shortLived = 0
    while (true) {
      const reason = await worker.ended
      if (ending.signal.aborted) return
      shortLived = worker.ageMs() > SOUND_AFTER_MS ? 0 : shortLived + 1
      const pauseMs = backoffMs(RESTART, shortLived)
      const when = pauseMs === 0 ? 'now' : `in ${pauseMs} ms`
      notices.info(`Worker ${worker.pid} ended (${reason}). A replacement starts ${when}.`)
      await pause(pauseMs, undefined, ending).catch(() => undefined)
      if (ending.signal.aborted) return
      const replacement = fork(number)
      worker = replacement
      // One that can't serve is ended, so that another is tried. The reason is reported when it has ended.
      replacement.serving.catch(() => replacement.end())
    }
  }

  /** Makes them accept no more requests, and waits until they have answered those in flight and ended. */
  async function close(): Promise<void> {
    ending.abort()
    await Promise.all([...living.keys()].map((worker) => worker.end()))
  }

  try {
    const workers = Array.from({ length: count }, (_, index) => fork(index + 1))
    const [url = ''] = await Promise.all(workers.map(({ serving }) => serving))
    for (const [index, worker] of workers.entries()) void replaceForEver(worker, index + 1)
    return { url, readMetrics, drain, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** Minimum lifetime for a replacement without a pause: the cause is unlikely to hit the next worker at once. */
const SOUND_AFTER_MS = 10_000
