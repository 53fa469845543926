import { openServer, type ServerOptions } from '../app.ts'
import type { Command, Report } from './workerProcess.ts'

/** Serves as one of several processes until the primary orders it to end. If the primary dies, node:cluster ends it. */
export async function runWorker(options: ServerOptions): Promise<void> {
  // A Ctrl-C in a terminal reaches the whole process group. A worker ignores it, and ends on the primary's command.
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, () => undefined)
  let server: Awaited<ReturnType<typeof openServer>> | undefined

  async function execute(command: Command): Promise<void> {
    if (command.to === 'end') {
      await server?.close().catch(options.onFault)
      process.exit()
    }
    await server?.serve(command.target)
    if (server) report({ state: 'serving', url: server.url })
  }

  process.on('message', (command: Command) => void execute(command).catch(reportFailure))
  try {
    server = await openServer(options)
    report({ state: 'listening', url: server.url })
  } catch (error) {
    reportFailure(error)
  }
}

/** Reports why the worker can't continue. The primary then ends it. */
function reportFailure(error: unknown): void {
  const { message, code, syscall } = error as NodeJS.ErrnoException
  report({ state: 'failed', message, code, syscall })
}

function report(report: Report): void {
  // If it can't be delivered, the primary has ended, and this process is about to end.
  process.send?.(report, () => undefined)
}
