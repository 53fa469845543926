import cluster from 'node:cluster'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import type { Target } from './mysql/target.ts'
import { forkWorker, type Worker } from './workerProcess.ts'

/** Processes that share one address and one database. */
export interface Workers {
  /** Where they can be reached: one address for all. */
  url: string
  /** Has them serve; until then they answer that Nth is starting. */
  serve(target: Target): Promise<void>
  /** Has them take no more requests, and waits until they have answered those under way and ended. */
  close(): Promise<void>
}

export interface WorkersOptions {
  count: number
  host: string
  /** The port they share; 0 is any that is free. */
  port: number
  /** Told of workers that ended by themselves. */
  say: (message: string) => void
}

/**
 * Forks workers of this program, which run `runWorker`, and waits until all of them listen.
 *
 * A worker is forked → listening → serving → ended. Until all serve, the end of one is the failure of the
 * start; from then on each that ends has another take its place, until they are closed.
 *
 * @throws the system's error if the address can't be had, such as EADDRINUSE
 */
export async function openWorkers({ count, host, port, say }: WorkersOptions): Promise<Workers> {
  const living = new Set<Worker>()
  const ending = new AbortController()
  const environment = { PORT: String(await probe(host, port)) }
  // The kernel (SCHED_NONE) distributes connections too unevenly: of 64 that came at once, two idle workers took 62
  // and 2, four of them 55, 8, 1 and 0 (Node 20, two cores), and connections are kept for long.
  cluster.schedulingPolicy = cluster.SCHED_RR

  // Those that serve end by themselves when this process is gone; those that are ending finish first.
  process.once('exit', () => {
    for (const worker of living) worker.kill()
  })

  function fork(): Worker {
    const worker = forkWorker(environment)
    living.add(worker)
    worker.ended.then(() => living.delete(worker))
    return worker
  }

  async function replaceForEver(first: Worker, target: Target): Promise<void> {
    let worker = first
    let pauseMs = 0
    while (true) {
      const reason = await worker.ended
      if (ending.signal.aborted) return
      pauseMs = pauseBeforeNext(worker.ageMs(), pauseMs)
      const when = pauseMs === 0 ? 'now' : `in ${pauseMs} ms`
      say(`Worker ${worker.pid} ended (${reason}); another takes its place ${when}.`)
      await pause(pauseMs, undefined, ending).catch(() => undefined)
      if (ending.signal.aborted) return
      worker = fork()
      start(worker, target)
    }
  }

  async function close(): Promise<void> {
    ending.abort()
    await Promise.all([...living].map((worker) => worker.end()))
  }

  try {
    const workers = Array.from({ length: count }, fork)
    const [url = ''] = await Promise.all(workers.map((worker) => worker.reported('listening')))
    return {
      url,
      close,

      async serve(target) {
        await Promise.all(workers.map((worker) => worker.serve(target)))
        for (const worker of workers) void replaceForEver(worker, target)
      },
    }
  } catch (error) {
    await close()
    throw error
  }
}

const SHORTEST_PAUSE_MS = 200
const LONGEST_PAUSE_MS = 5_000
/** What a worker met that lived for longer isn't what the next one meets at once. */
const SOUND_AFTER_MS = 10_000

/** How long to wait before a worker is replaced: longer each time, if they don't live. In milliseconds. */
export function pauseBeforeNext(livedMs: number, lastPauseMs: number): number {
  if (livedMs > SOUND_AFTER_MS) return 0
  return Math.min(Math.max(lastPauseMs * 2, SHORTEST_PAUSE_MS), LONGEST_PAUSE_MS)
}

/** Has a worker serve as soon as it can, and ends one that can't, so that another is tried. */
async function start(worker: Worker, target: Target): Promise<void> {
  try {
    await worker.reported('listening')
    await worker.serve(target)
  } catch {
    // The reason is that of its end, which is said when it has ended.
    await worker.end()
  }
}

/**
 * Finds out whether an address can be had, before any process is made for it, and returns its port: a number
 * that all workers can ask for, also those that come when all others have ended.
 */
async function probe(host: string, port: number): Promise<number> {
  const server = createServer().listen(port, host)
  await once(server, 'listening')
  // What it is bound to: a port and an address, not the path of a socket.
  const address = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return address.port
}
