import type { ChildProcess } from 'node:child_process'
import cluster, { type Worker as ClusterWorker } from 'node:cluster'
import type { MetricState } from './metrics/aggregate.ts'
import type { Targets } from './mysql/connections/target.ts'

/** A message from a worker to the primary. */
export type Report =
  | { state: 'started' }
  | { state: 'serving'; url: string }
  | { state: 'measured'; metrics: MetricState[] }
  | { state: 'asks for metrics'; id: number }
  | { state: 'failed'; message: string; code?: string | undefined; syscall?: string | undefined }

/** A message from the primary to a worker. */
export type WorkerCommand =
  | { to: 'serve'; targets: Targets }
  | { to: 'receive metrics'; id: number; text: string }
  | { to: 'drain' | 'end' }

/** A worker, seen from the primary. */
export type Worker = ReturnType<typeof forkWorker>

/**
 * Forks a worker of this program, with variables in addition to the primary's own, and makes it serve.
 *
 * @param targets the database
 * @param endedWithinMs time until an ending worker is killed
 * @param readMetrics returns the metrics of all workers
 */
export function forkWorker(
  environment: Record<string, string>,
  targets: Targets,
  endedWithinMs: number,
  readMetrics: () => Promise<string>,
) {
  const beganAt = performance.now()
  const worker = cluster.fork(environment)
  closeOnExit(worker)
  const { pid } = worker.process
  let failure: string | undefined
  let metrics: MetricState[] = []
  worker.on('message', (report: Report) => {
    if (report.state === 'failed') failure = report.message
    // Before that it wouldn't receive it.
    if (report.state === 'started') send({ to: 'serve', targets })
    if (report.state === 'asks for metrics') void sendMetrics(report.id)
    if (report.state === 'measured') metrics = report.metrics
  })
  /** Resolves with the reason when it has ended. */
  const ended = new Promise<string>((resolve) => {
    worker.on('exit', (code, signal) => resolve(failure ?? signal ?? `exit ${code}`))
    worker.on('error', (error) => pid === undefined && resolve(`it could not be started: ${error.message}`))
  })

  /** Resolves with its URL once it serves. Rejects if it fails or ends first. */
  const serving = new Promise<string>((resolve, reject) => {
    worker.on('message', (report: Report) => {
      if (report.state === 'failed') reject(Object.assign(new Error(report.message), report))
      if (report.state === 'serving') resolve(report.url)
    })
    ended.then((reason) => reject(new Error(`Worker ${pid} ended (${reason}) before it served.`)))
  })

  const kill = () => worker.process.kill('SIGKILL')

  async function sendMetrics(id: number): Promise<void> {
    send({ to: 'receive metrics', id, text: await readMetrics() })
  }

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

    /** Its metrics as last reported: each second, and when it ended. */
    metrics: () => metrics,

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
  // It could not be started, and has no channel.
  if (!child.connected) return
  let last: { close?(): void } | undefined
  child.send = new Proxy(child.send, {
    apply(send, self: ChildProcess, args: Parameters<ChildProcess['send']>) {
      // A handle of any kind; those of connections can be closed.
      if (args[1]) last = args[1] as { close?(): void }
      return Reflect.apply(send, self, args)
    },
  })
  worker.on('exit', () => last?.close?.())
}
