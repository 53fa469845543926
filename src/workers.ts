import type { ChildProcess } from 'node:child_process'
import cluster, { type Worker as ClusterWorker } from 'node:cluster'
import { setTimeout as pause } from 'node:timers/promises'
import type { Config } from './config.ts'
import { probe } from './http/address.ts'
import type { SpentChanges } from './http/rateLimits.ts'
import type { Targets } from './mysql/settings.ts'
import type { Notices } from './operations/log.ts'
import { createAggregate, type MetricState } from './operations/metrics.ts'
import { backoffMs, RESTART } from './rules/errors.ts'

/**
 * Forks workers, which run `runWorker` and share one address and one database, and waits until all of them serve.
 *
 * States of a worker: forked → started → serving → ended; it listens once it can serve. If one ends before all serve, the
 * startup fails. From then on, each worker that ends by itself is reported and replaced.
 *
 * @throws an error for the operator if the address is not available
 */
export async function openWorkers(config: Config, targets: Targets, notices: Notices) {
  const { workers: count, host, port, shutdownTimeoutMs } = config
  const living = new Set<Worker>()
  const aggregate = createAggregate()
  const ending = new AbortController()
  // Each worker must request the same one, also one that replaces another.
  const chosen = port === 0 ? (await probe(host, port)).port : port
  const environment = { HOST: host, PORT: String(chosen) }
  // The kernel (SCHED_NONE) distributes connections too unevenly: of 64 simultaneous ones, two idle workers took
  // 62 and 2, four took 55, 8, 1 and 0 (Node 20, two cores), and connections are long-lived.
  cluster.schedulingPolicy = cluster.SCHED_RR

  // When this process ends, serving workers end by themselves. Workers that are ending would finish first, so kill all.
  process.once('exit', () => {
    for (const worker of living) worker.kill()
  })

  function fork(): Worker {
    // Longer than a closing server waits for requests in flight.
    const worker = forkWorker(environment, targets, shutdownTimeoutMs * 0.75, readMetrics, (spent) => {
      for (const other of living) if (other !== worker) other.countChanges(spent)
    })
    living.add(worker)
    worker.ended.then(() => {
      living.delete(worker)
      aggregate.keep(worker.metrics())
    })
    return worker
  }

  const readMetrics = () => aggregate.text(Array.from(living, (worker) => worker.metrics()))

  function drain(): void {
    for (const worker of living) worker.drain()
  }

  /** @param shortLived how many workers before it ended soon, one after another */
  async function replaceOnEnd(worker: Worker, shortLived = 0): Promise<void> {
    const reason = await worker.ended
    if (ending.signal.aborted) return
    const failures = worker.ageMs() > SOUND_AFTER_MS ? 0 : shortLived + 1
    const pauseMs = backoffMs(RESTART, failures)
    const when = pauseMs === 0 ? 'now' : `in ${pauseMs} ms`
    notices.info(`Worker ${worker.pid} ended (${reason}). A replacement starts ${when}.`)
    await pause(pauseMs, undefined, ending).catch(() => undefined)
    if (ending.signal.aborted) return
    const replacement = fork()
    // A worker that can't serve is ended, so that another is tried. The reason is reported when it has ended.
    replacement.serving.catch(() => replacement.end())
    void replaceOnEnd(replacement, failures)
  }

  /** Makes them accept no more requests, and waits until they have answered those in flight and ended. */
  async function close(): Promise<void> {
    ending.abort()
    await Promise.all(Array.from(living, (worker) => worker.end()))
  }

  try {
    const workers = Array.from({ length: count }, fork)
    const [url = ''] = await Promise.all(workers.map(({ serving }) => serving))
    for (const worker of workers) void replaceOnEnd(worker)
    return { url, readMetrics, drain, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** Minimum lifetime for a replacement without a pause: the cause is unlikely to hit the next worker at once. */
const SOUND_AFTER_MS = 10_000

/** A message from a worker to the primary. */
export type Report =
  | { state: 'started' }
  | { state: 'serving'; url: string }
  | { state: 'measured'; metrics: MetricState[] }
  | { state: 'requests metrics' }
  | { state: 'allowed changes'; spent: SpentChanges }
  | { state: 'failed'; message: string }

/** A message from the primary to a worker. */
export type WorkerCommand =
  | { to: 'serve'; targets: Targets }
  | { to: 'receive metrics'; text: string }
  | { to: 'count changes'; spent: SpentChanges }
  | { to: 'drain' | 'end' }

/** A worker, seen from the primary. */
type Worker = ReturnType<typeof forkWorker>

/**
 * Forks a worker of this program, with variables in addition to the primary's own, and makes it serve.
 *
 * @param targets the database
 * @param endedWithinMs time until an ending worker is killed
 * @param readMetrics returns the metrics of all workers
 * @param onAllowed called with the changes that it has allowed to limited callers
 */
function forkWorker(
  environment: Record<string, string>,
  targets: Targets,
  endedWithinMs: number,
  readMetrics: () => Promise<string>,
  onAllowed: (spent: SpentChanges) => void,
) {
  const beganAt = performance.now()
  const worker = cluster.fork(environment)
  closeOnExit(worker)
  const { pid } = worker.process
  const kill = () => worker.process.kill('SIGKILL')
  let failure: string | undefined
  let metrics: MetricState[] = []
  /** Resolves with the reason when it has ended. */
  const ended = new Promise<string>((resolve) => {
    worker.on('exit', (code, signal) => resolve(failure ?? signal ?? `exit ${code}`))
    worker.on('error', (error) => pid === undefined && resolve(`it could not be started: ${error.message}`))
  })

  /** Resolves with its URL once it serves. Rejects if it fails or ends first. */
  const serving = new Promise<string>((resolve, reject) => {
    worker.on('message', async (report: Report) => {
      switch (report.state) {
        case 'started':
          // Before that it wouldn't receive it.
          return send({ to: 'serve', targets })
        case 'serving':
          return resolve(report.url)
        case 'measured':
          metrics = report.metrics
          return
        case 'requests metrics':
          return send({ to: 'receive metrics', text: await readMetrics() })
        case 'allowed changes':
          return onAllowed(report.spent)
        case 'failed':
          failure = report.message
          reject(new Error(failure))
      }
    })
    ended.then((reason) => reject(new Error(`Worker ${pid} ended (${reason}) before it served.`)))
  })

  function send(command: WorkerCommand): void {
    // A worker that has just ended gets no command. Its end is handled elsewhere.
    if (worker.isConnected()) worker.send(command, () => undefined)
  }

  return {
    pid,
    ended,
    serving,
    kill,
    ageMs: () => performance.now() - beganAt,

    /** The worker's metrics as last reported: each second, and when it ended. */
    metrics: () => metrics,

    /** Counts changes that other workers have allowed. */
    countChanges: (spent: SpentChanges) => send({ to: 'count changes', spent }),

    /** Makes it report that it isn't ready, though it still answers. */
    drain: () => send({ to: 'drain' }),

    /** Makes it accept no more connections, finish its requests and end. Kills it if it doesn't. */
    async end(): Promise<void> {
      send({ to: 'end' })
      // From here on it is assigned no connections. It would return those that arrive after the command, and
      // node:cluster keeps what the last worker returns, open and unanswered.
      worker.disconnect()
      const force = setTimeout(kill, endedWithinMs)
      await ended
      clearTimeout(force)
    },
  }
}

/**
 * When a worker has ended, closes the connection that was in transit to it; a worker that froze or ran out of memory
 * usually leaves one. node:cluster would wait forever for its acknowledgement, and so would its caller. It is the last
 * handle that was sent, as only one is in transit at a time. If that had arrived, the primary has closed its own copy.
 */
function closeOnExit(worker: ClusterWorker): void {
  const { process: child } = worker
  // A worker that could not be started has no channel.
  if (!child.connected) return
  let last: { close?(): void } | undefined
  child.send = new Proxy(child.send, {
    apply(send, self: ChildProcess, args: Parameters<ChildProcess['send']>) {
      // A handle of any kind; handles of connections can be closed.
      if (args[1]) last = args[1] as { close?(): void }
      return Reflect.apply(send, self, args)
    },
  })
  worker.on('exit', () => last?.close?.())
}
