import type { ChildProcess } from 'node:child_process'
import cluster, { type Worker as ClusterWorker } from 'node:cluster'
import type { Target } from './mysql/target.ts'

/** What a worker tells its primary. */
export type Report =
  | { state: 'listening' | 'serving'; url: string }
  | { state: 'failed'; message: string; code?: string | undefined; syscall?: string | undefined }

/** What the primary tells a worker. */
export type Order = { to: 'serve'; target: Target } | { to: 'end' }

/** A worker as its primary sees it. */
export interface Worker {
  pid: number | undefined
  ageMs(): number
  /** Waits until it has come to a state, and returns its address; fails when it fails or ends. */
  reported(state: 'listening' | 'serving'): Promise<string>
  serve(target: Target): Promise<void>
  /** Has it take no more connections, finish what it has and end; by force if it doesn't. */
  end(): Promise<void>
  /** Ends it at once. */
  kill(): void
  /** Why it has ended, when it has. */
  ended: Promise<string>
}

/** Longer than a server waits for requests under way when it closes. */
const ENDED_WITHIN_MS = 15_000

/** Forks a worker of this program, with these variables beside the primary's own. */
export function forkWorker(environment: Record<string, string>): Worker {
  const beganAt = performance.now()
  const worker = cluster.fork(environment)
  closeOnExit(worker)
  const { pid } = worker.process
  let failure: string | undefined
  worker.on('message', (report: Report) => {
    if (report.state === 'failed') failure = report.message
  })
  const ended = new Promise<string>((resolve) => {
    worker.on('exit', (code, signal) => resolve(failure ?? signal ?? `exit ${code}`))
    worker.on('error', (error) => pid === undefined && resolve(`it could not be run: ${error.message}`))
  })

  function reported(state: 'listening' | 'serving'): Promise<string> {
    return new Promise((resolve, reject) => {
      worker.on('message', (report: Report) => {
        if (report.state === 'failed') reject(Object.assign(new Error(report.message), report))
        else if (report.state === state) resolve(report.url)
      })
      ended.then((reason) => reject(new Error(`Worker ${pid} ended (${reason}) before it served.`)))
    })
  }

  function kill(): void {
    worker.process.kill('SIGKILL')
  }

  function order(order: Order): void {
    // One that has just ended takes no order; that it has ended is heard of elsewhere.
    if (worker.isConnected()) worker.send(order, () => undefined)
  }

  return {
    pid,
    ended,
    reported,
    kill,
    ageMs: () => performance.now() - beganAt,

    async serve(target) {
      order({ to: 'serve', target })
      await reported('serving')
    },

    async end() {
      order({ to: 'end' })
      // From here on no connection is assigned to it. It would hand those back that come after the order, and
      // node:cluster keeps what is handed back by the last worker, open and unanswered.
      worker.disconnect()
      const force = setTimeout(kill, ENDED_WITHIN_MS)
      await ended
      clearTimeout(force)
    },
  }
}

/**
 * Closes, when a worker has ended, the connection that was on its way to it. node:cluster would keep it open
 * for ever, waiting for the worker to say that it has it, and its caller would wait as long. A worker that
 * froze or ran out of memory mostly leaves one.
 *
 * It is the last handle that was sent, as only one at a time is on its way. To close one that had arrived does
 * nothing: the primary's own copy has been closed then.
 */
function closeOnExit(worker: ClusterWorker): void {
  const { process: child } = worker
  // It could not be run, and has no channel.
  if (!child.connected) return
  let last: unknown
  child.send = new Proxy(child.send, {
    apply(send, self: ChildProcess, args: Parameters<ChildProcess['send']>) {
      if (args[1]) last = args[1]
      return Reflect.apply(send, self, args)
    },
  })
  worker.on('exit', () => isClosable(last) && last.close())
}

function isClosable(handle: unknown): handle is { close(): void } {
  return typeof handle === 'object' && handle !== null && 'close' in handle
}
