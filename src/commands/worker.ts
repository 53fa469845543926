import { openServer, type ServerOptions } from '../app.ts'
import type { Report, WorkerCommand } from '../workers.ts'

/** How often its metrics are reported: of a worker that is killed, what it counted since is not known. */
const REPORT_EVERY_MS = 1000

/** Serves as one of several processes until the primary orders it to end. If the primary dies, node:cluster ends it. */
export async function runWorker(options: Omit<ServerOptions, 'targets' | 'readMetrics'>): Promise<void> {
  // A Ctrl-C in a terminal reaches the whole process group. A worker ignores it, and ends on the primary's command.
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, () => undefined)
  let server: Awaited<ReturnType<typeof openServer>> | undefined
  const asked = new Map<number, (text: string) => void>()
  let lastAsked = 0

  /** The metrics of all workers, which the primary adds up. */
  function readMetrics(): Promise<string> {
    lastAsked += 1
    const id = lastAsked
    void report({ state: 'asks for metrics', id })
    return new Promise((resolve) => asked.set(id, resolve))
  }

  async function measure(): Promise<void> {
    if (server) await report({ state: 'measured', metrics: await server.metrics.read() })
  }

  async function execute(command: WorkerCommand): Promise<void> {
    switch (command.to) {
      case 'serve':
        server = await openServer({ ...options, targets: command.targets, readMetrics })
        setInterval(() => void measure().catch(options.notices.fault), REPORT_EVERY_MS).unref()
        await measure()
        return report({ state: 'serving', url: server.url })
      case 'receive metrics':
        asked.get(command.id)?.(command.text)
        asked.delete(command.id)
        return
      case 'drain':
        return server?.drain()
      case 'end':
        await server?.close().catch(options.notices.fault)
        await measure()
        process.exit()
    }
  }

  process.on('message', (command: WorkerCommand) => void execute(command).catch(reportFailure))
  await report({ state: 'started' })
}

/** Reports why the worker can't continue. The primary then ends it. */
function reportFailure(error: unknown): void {
  const { message, code, syscall } = error as NodeJS.ErrnoException
  void report({ state: 'failed', message, code, syscall })
}

/** Returns when it was sent. If it can't be delivered, the primary has ended, and this process is about to end. */
function report(report: Report): Promise<void> {
  return new Promise((resolve) => {
    if (process.send) process.send(report, () => resolve())
    else resolve()
  })
}
